# cmake -DSOURCE=folder -DOUTPUT=file.cc -P commit.cmake
# Writes which sources a program is made of: `<40 hex digits>` of the checkout's commit, "-dirty"
# behind it where any of them differs or is not in it; `sources-<64 hex digits>`, a digest of them,
# where SOURCE is no checkout. Run at each build; the file is touched only when it changes.
cmake_minimum_required(VERSION 3.25)

function(git result)
  # No lock: another git may be at work in the checkout.
  execute_process(COMMAND git --no-optional-locks -C ${SOURCE} ${ARGN}
                  OUTPUT_VARIABLE text RESULT_VARIABLE code ERROR_QUIET
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT code EQUAL 0)
    set(text "")
  endif()
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

set(rooms client common proto server tools cmake)
set(settings CMakeLists.txt CMakePresets.json)

git(top rev-parse --show-toplevel)
git(commit rev-parse HEAD)
file(REAL_PATH ${SOURCE} here)
# A folder without a .git of its own may lie in somebody else's checkout.
if(top STREQUAL here AND commit MATCHES "^[0-9a-f]+$")
  git(changes status --porcelain -- ${rooms} ${settings})
  if(NOT changes STREQUAL "")
    string(APPEND commit "-dirty")
  endif()
else()
  set(digests "")
  set(all ${settings})
  foreach(room IN LISTS rooms)
    file(GLOB_RECURSE files RELATIVE ${SOURCE} ${SOURCE}/${room}/*)
    list(FILTER files EXCLUDE REGEX "__pycache__")
    list(APPEND all ${files})
  endforeach()
  list(SORT all)
  foreach(name IN LISTS all)
    file(SHA256 ${SOURCE}/${name} digest)
    string(APPEND digests "${digest}  ${name}\n")
  endforeach()
  string(SHA256 digest "${digests}")
  set(commit "sources-${digest}")
endif()

file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT "// Made by cmake/commit.cmake.
namespace varve {
extern const char* const kBuildCommit;
const char* const kBuildCommit = \"@commit@\";
}  // namespace varve
")
