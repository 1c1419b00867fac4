# libvarve as others get it: a shared library with the C door and nothing else, its header, its
# pkg-config and CMake packages; the examples, and the test that builds them against what was
# installed. C++ programs of this tree use the target `varve` instead: installed, a C++ interface
# would tie others to our compiler and to all headers below client/varve.h.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
include(cmake/relative.cmake)

# Bytes of C11 and C++ callers depend on it: raised when a program that was linked against an
# earlier libvarve would not work any more, never before 1.0 without a word in CHANGELOG.md.
set(VARVE_SOVERSION 0)

if(TARGET varve_client)
  add_executable(varve_example_push_pull ${CMAKE_SOURCE_DIR}/examples/push_pull.cc)
  target_link_libraries(varve_example_push_pull PRIVATE varve)
endif()

# Under a sanitizer its users would need the sanitizer's runtime as well; fuzzing links it in.
if(NOT TARGET varve_client OR VARVE_SANITIZE OR VARVE_FUZZ)
  return()
endif()

set(map ${CMAKE_SOURCE_DIR}/client/varve_c.map)
add_library(varve_shared SHARED $<TARGET_OBJECTS:varve_client>)
varve_link_rooms(varve_shared PRIVATE ${kCommon})
target_link_libraries(varve_shared PRIVATE Threads::Threads)
# nodelete: a lookup that stands still outlives its client, and its thread returns into this code.
target_link_options(varve_shared PRIVATE -Wl,--version-script=${map} -Wl,--no-undefined
                    -Wl,--exclude-libs,ALL -Wl,-z,nodelete)
set_target_properties(varve_shared PROPERTIES
  OUTPUT_NAME varve VERSION ${PROJECT_VERSION} SOVERSION ${VARVE_SOVERSION}
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib EXPORT_NAME varve LINK_DEPENDS ${map})
target_include_directories(varve_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Varve)
install(TARGETS varve_shared EXPORT VarveTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        COMPONENT library)
install(FILES ${CMAKE_SOURCE_DIR}/client/varve_c.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/varve COMPONENT library)
install(EXPORT VarveTargets NAMESPACE Varve:: DESTINATION ${package}
        COMPONENT library)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/VarveConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
configure_file(${CMAKE_SOURCE_DIR}/cmake/VarveConfig.cmake.in
               ${CMAKE_BINARY_DIR}/VarveConfig.cmake @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/VarveConfig.cmake ${CMAKE_BINARY_DIR}/VarveConfigVersion.cmake
        DESTINATION ${package} COMPONENT library)
file(RELATIVE_PATH up /x/${CMAKE_INSTALL_LIBDIR}/pkgconfig /x)  # from varve.pc to its prefix
configure_file(${CMAKE_SOURCE_DIR}/cmake/varve.pc.in ${CMAKE_BINARY_DIR}/varve.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/varve.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
        COMPONENT library)

add_test(NAME e2e/install
         COMMAND python3 ${CMAKE_SOURCE_DIR}/tests/e2e/install_test.py ${CMAKE_BINARY_DIR}
                 $<TARGET_FILE:varve_example_push_pull>)
set_tests_properties(e2e/install PROPERTIES TIMEOUT ${VARVE_TEST_SECONDS_MAX})
