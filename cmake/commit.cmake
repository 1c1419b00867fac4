# cmake -DSOURCE=folder -DOUTPUT=file.cc -P commit.cmake
# Writes which sources a program is made of: `<40 hex digits>` of the checkout's commit, "-dirty"
# behind it where files differ; `sources-<64 hex digits>`, a digest of the files, where SOURCE is no
# checkout. Run at each build; the file is touched only when it changes.
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

git(top rev-parse --show-toplevel)
git(commit rev-parse HEAD)
file(REAL_PATH ${SOURCE} here)
# A folder without a .git of its own may lie in somebody else's checkout.
if(top STREQUAL here AND commit MATCHES "^[0-9a-f]+$")
  git(changes status --porcelain)
  if(NOT changes STREQUAL "")
    string(APPEND commit "-dirty")
  endif()
else()
  set(digests "")
  foreach(room client common proto server tools cmake)
    file(GLOB_RECURSE files RELATIVE ${SOURCE} ${SOURCE}/${room}/*)
    list(FILTER files EXCLUDE REGEX "__pycache__")
    list(SORT files)
    foreach(name IN LISTS files)
      file(SHA256 ${SOURCE}/${name} digest)
      string(APPEND digests "${digest}  ${name}\n")
    endforeach()
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
