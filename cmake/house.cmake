# What a line of the room table means: flags of every target, and the functions varve_room,
# varve_program, varve_tool, varve_embed, varve_doubles and varve_fuzz.
# A folder that does not exist (yet) is skipped, so rooms may appear in any order.

# Of a program of tests. Only what hangs meets it: under sanitizers, on two cores that others use
# too, some take minutes.
set(VARVE_TEST_SECONDS_MAX 900)

find_program(VARVE_CCACHE ccache)
if(VARVE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${VARVE_CCACHE})
endif()
find_program(VARVE_LLD ld.lld)
if(VARVE_LLD)
  add_link_options(-fuse-ld=lld)
endif()

add_compile_options(-Wall -Wextra -Werror -Wshadow -fno-omit-frame-pointer -march=${VARVE_MARCH})
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  add_compile_options(-Wno-restrict)  # false on std::string at -O2 and -O3 (GCC PR 105651)
  if(CMAKE_CXX_FLAGS MATCHES "-O3")
    # False on a std::variant of strings (GCC PR 107138); the other builds keep the warning.
    add_compile_options(-Wno-maybe-uninitialized)
  endif()
endif()
# __FILE__ and debug information name files from the root of the tree, wherever it was checked out.
add_compile_options(-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
include_directories(${CMAKE_SOURCE_DIR})
if(VARVE_DEBUG)
  add_compile_definitions(VARVE_DEBUG=1)
endif()
if(VARVE_SANITIZE)
  add_compile_options(-fsanitize=${VARVE_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${VARVE_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # gcc 12 reports false uninitialised uses and impossible array bounds under the sanitizers.
    add_compile_options(-Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overflow)
  endif()
endif()
if(VARVE_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(GTest REQUIRED)
find_package(spdlog REQUIRED)
find_package(prometheus-cpp REQUIRED)
find_package(civetweb REQUIRED)

# "common/base" -> "varve_common_base"
function(varve_target_of path result)
  string(REPLACE "/" "_" name "varve_${path}")
  set(${result} ${name} PARENT_SCOPE)
endfunction()

# Links `target` to those of the listed rooms that exist; `keyword` is PUBLIC, PRIVATE or INTERFACE.
function(varve_link_rooms target keyword)
  foreach(path IN LISTS ARGN)
    varve_target_of(${path} dep)
    if(TARGET ${dep})
      target_link_libraries(${target} ${keyword} ${dep})
    endif()
  endforeach()
endfunction()

# varve_room(path [DEPS rooms...] [DOORS headers...] [LIBS libraries...] [DOUBLES]
#            [TEST_DEPS rooms...])
# A static library of path/*.cc (an interface library while the room is headers only) and one
# test program of tests/path/*.cc. DEPS are exactly the rooms whose doors path may include.
function(varve_room path)
  cmake_parse_arguments(ROOM "DOUBLES" "" "DEPS;LIBS;DOORS;TEST_DEPS" ${ARGN})
  file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${path}/*.h)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${path}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/main\\.cc$")
  if(NOT headers AND NOT sources)
    return()
  endif()
  varve_target_of(${path} target)
  if(sources)
    add_library(${target} STATIC ${sources})
    varve_link_rooms(${target} PUBLIC ${ROOM_DEPS})
    target_link_libraries(${target} PUBLIC ${ROOM_LIBS} Threads::Threads)
    if(path MATCHES "^(common/|client$)")  # what libvarve.so is made of (cmake/library.cmake)
      set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON
                            CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
    endif()
  else()
    add_library(${target} INTERFACE)
    varve_link_rooms(${target} INTERFACE ${ROOM_DEPS})
    target_link_libraries(${target} INTERFACE ${ROOM_LIBS} Threads::Threads)
  endif()
  varve_room_test(${path} ${target} "${ROOM_DOUBLES}" "${ROOM_TEST_DEPS}")
endfunction()

# The gtest program of a room. The plain name varve_doubles is resolved late: the library is
# defined further down the table than the first rooms whose tests use it.
function(varve_room_test path target doubles test_deps)
  file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${path}/*.cc)
  if(NOT tests)
    return()
  endif()
  string(REPLACE "/" "_" test "test_${path}")
  add_executable(${test} ${tests})
  target_link_libraries(${test} PRIVATE ${target})
  if(doubles)
    target_link_libraries(${test} PRIVATE varve_doubles)
  endif()
  varve_link_rooms(${test} PRIVATE ${test_deps})
  target_link_libraries(${test} PRIVATE GTest::gmock GTest::gtest GTest::gtest_main)
  add_test(NAME ${path} COMMAND ${test} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${path} PROPERTIES TIMEOUT ${VARVE_TEST_SECONDS_MAX})
endfunction()

# varve_thread_test(DEPS rooms... SOURCES patterns... [DOUBLES]): test_threads, of some test files
# of several rooms. Not built by `all`, which has those tests already.
function(varve_thread_test)
  cmake_parse_arguments(TEST "DOUBLES" "" "DEPS;SOURCES" ${ARGN})
  list(TRANSFORM TEST_SOURCES PREPEND ${CMAKE_SOURCE_DIR}/)
  file(GLOB sources CONFIGURE_DEPENDS ${TEST_SOURCES})
  add_executable(test_threads EXCLUDE_FROM_ALL ${sources})
  varve_link_rooms(test_threads PRIVATE ${TEST_DEPS})
  if(TEST_DOUBLES)
    target_link_libraries(test_threads PRIVATE varve_doubles)
  endif()
  target_link_libraries(test_threads PRIVATE GTest::gmock GTest::gtest GTest::gtest_main)
endfunction()

# varve_doubles([DEPS rooms...]): tests/doubles, the fakes that several test programs share.
function(varve_doubles)
  cmake_parse_arguments(ROOM "" "" "DEPS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/doubles/*.cc)
  if(sources)
    add_library(varve_doubles STATIC ${sources})
    varve_link_rooms(varve_doubles PUBLIC ${ROOM_DEPS})
  else()
    add_library(varve_doubles INTERFACE)
    varve_link_rooms(varve_doubles INTERFACE ${ROOM_DEPS})
  endif()
endfunction()

# varve_program(name path [DEPS rooms...] [LIBS libraries...]): an executable of path/main.cc.
# With SOURCES_OF_PATH the other .cc files of the folder become a library that its tests link too.
function(varve_program name path)
  cmake_parse_arguments(ROOM "DOUBLES;SOURCES_OF_PATH" "" "DEPS;LIBS" ${ARGN})
  file(GLOB main CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${path}/main.cc)
  if(NOT main)
    return()
  endif()
  add_executable(${name} ${main})
  varve_link_rooms(${name} PRIVATE ${ROOM_DEPS})
  target_link_libraries(${name} PRIVATE ${ROOM_LIBS} Threads::Threads)
  if(ROOM_DOUBLES)
    target_link_libraries(${name} PRIVATE varve_doubles)
  endif()
  if(ROOM_SOURCES_OF_PATH)
    varve_room(${path} DEPS ${ROOM_DEPS} LIBS ${ROOM_LIBS})
    varve_link_rooms(${name} PRIVATE ${path})
    varve_target_of(${path} own)
    if(ROOM_DOUBLES AND TARGET ${own})
      get_target_property(kind ${own} TYPE)
      if(kind STREQUAL "STATIC_LIBRARY")
        target_link_libraries(${own} PUBLIC varve_doubles)
      endif()
    endif()
  endif()
endfunction()

# varve_mutants(program path): a program for each section of path/mutants.txt, which has that one
# fault planted; only the target varve_mutants builds them. An object goes before the member of an
# archive that has the same symbols, so one file is compiled for each and nothing else.
function(varve_mutants program path)
  if(NOT TARGET ${program})
    return()
  endif()
  set(list ${CMAKE_SOURCE_DIR}/${path}/mutants.txt)
  set(mutate ${CMAKE_SOURCE_DIR}/${path}/mutate.py)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  get_target_property(libraries ${program} LINK_LIBRARIES)
  add_custom_target(varve_mutants)
  file(STRINGS ${list} lines REGEX "^(\\[|file )")
  foreach(line IN LISTS lines)
    if(line MATCHES "^\\[(.*)\\]$")
      set(name ${CMAKE_MATCH_1})
      continue()
    endif()
    string(REPLACE "file " "" file "${line}")
    set(source ${CMAKE_BINARY_DIR}/mutants/${name}/${file})
    add_custom_command(
      OUTPUT ${source}
      COMMAND python3 ${mutate} ${list} ${name} ${CMAKE_SOURCE_DIR} ${source}
      DEPENDS ${list} ${mutate} ${CMAKE_SOURCE_DIR}/${file})
    add_executable(varve_mutant_${name} EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${program}> ${source})
    target_link_libraries(varve_mutant_${name} PRIVATE ${libraries})
    add_dependencies(varve_mutants varve_mutant_${name})
  endforeach()
endfunction()

# varve_tool(tools/x NAME program [DEPS rooms...] [LIBS libraries...] [DOUBLES])
function(varve_tool path)
  cmake_parse_arguments(TOOL "DOUBLES" "NAME" "DEPS;LIBS" ${ARGN})
  set(doubles "")
  if(TOOL_DOUBLES)
    set(doubles DOUBLES)
  endif()
  varve_program(${TOOL_NAME} ${path} DEPS ${TOOL_DEPS} LIBS ${TOOL_LIBS} SOURCES_OF_PATH ${doubles})
endfunction()

# varve_fuzz(name DEPS rooms... [DOUBLES]): tests/fuzz/name_fuzz.cc. With the fuzz preset it is a
# libFuzzer program; otherwise it is linked with replay_main.cc and replays its corpus as an
# ordinary test.
function(varve_fuzz name)
  cmake_parse_arguments(FUZZ "DOUBLES" "" "DEPS" ${ARGN})
  file(GLOB source CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/fuzz/${name}_fuzz.cc)
  if(NOT source)
    return()
  endif()
  set(target varve_fuzz_${name})
  if(VARVE_FUZZ)
    add_executable(${target} ${source})
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
  else()
    add_executable(${target} ${source} ${CMAKE_SOURCE_DIR}/tests/fuzz/replay_main.cc)
    add_test(NAME fuzz/${name}
             COMMAND ${target} ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${name})
    set_tests_properties(fuzz/${name} PROPERTIES TIMEOUT ${VARVE_TEST_SECONDS_MAX})
  endif()
  varve_link_rooms(${target} PRIVATE ${FUZZ_DEPS})
  if(FUZZ_DOUBLES)
    target_link_libraries(${target} PRIVATE varve_doubles)
  endif()
endfunction()

# varve_embed(tools/x file namespace symbol): the text of a file of the tool as a C string that its
# library defines; a header of the tool declares `extern const char* const symbol`.
function(varve_embed path file namespace symbol)
  varve_target_of(${path} target)
  if(NOT TARGET ${target})
    return()
  endif()
  set(from ${CMAKE_SOURCE_DIR}/${path}/${file})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${from})
  file(READ ${from} text)
  set(source ${CMAKE_BINARY_DIR}/embed/${path}/${file}.cc)
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT "// Made by varve_embed of @path@/@file@.
namespace @namespace@ {
extern const char* const @symbol@;
const char* const @symbol@ = R\"embedded(@text@)embedded\";
}  // namespace @namespace@
")
  target_sources(${target} PRIVATE ${source})
endfunction()

# varve_build_commit(program): the program defines `const char* const varve::kBuildCommit`, which
# sources it is made of, asked anew at each build.
function(varve_build_commit program)
  if(NOT TARGET ${program})
    return()
  endif()
  set(source ${CMAKE_BINARY_DIR}/embed/build_commit.cc)
  if(NOT TARGET varve_commit)
    add_custom_target(varve_commit
                      COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DOUTPUT=${source}
                              -P ${CMAKE_SOURCE_DIR}/cmake/commit.cmake
                      BYPRODUCTS ${source})
  endif()
  target_sources(${program} PRIVATE ${source})
  add_dependencies(${program} varve_commit)
endfunction()

# varve_python_test(name script): a test written in Python, run by ctest like the others.
function(varve_python_test name script)
  if(EXISTS ${CMAKE_SOURCE_DIR}/${script})
    add_test(NAME ${name} COMMAND python3 ${CMAKE_SOURCE_DIR}/${script}
             WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${VARVE_TEST_SECONDS_MAX})
  endif()
endfunction()
