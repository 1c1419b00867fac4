# Where things are installed is said from the prefix on: the unit, varve.pc and the CMake package
# name the rest from there, so that a prefix is chosen by `cmake --install` and can be moved.
# Alone, as its test does: cmake -DCMAKE_INSTALL_BINDIR=... -P cmake/relative.cmake
foreach(folder BINDIR LIBDIR INCLUDEDIR DATADIR)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${folder}}")
    message(FATAL_ERROR "CMAKE_INSTALL_${folder} is an absolute path, ${CMAKE_INSTALL_${folder}}: "
                        "what is installed would name places outside of its prefix. Give it "
                        "from the prefix on (bin, lib, ...), that by cmake --install --prefix.")
  endif()
endforeach()
