# What a machine that runs Varve gets from `cmake --install BUILD --prefix P`, besides the library
# of cmake/library.cmake (alone: --component library; these alone: --component programs): varved,
# kvctl and kvbench, what completes kvctl in a shell, the unit, its settings to start from, the
# dashboard, the alerts, the control plane's messages and the operator's manual. They have to be
# built before: varved kvctl kvbench.
include(GNUInstallDirs)
include(cmake/relative.cmake)

# Sanitized programs are for tests.
if(NOT TARGET varved OR NOT TARGET kvctl OR NOT TARGET kvbench OR VARVE_SANITIZE OR VARVE_FUZZ)
  return()
endif()

install(TARGETS varved kvctl kvbench RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
        COMPONENT programs)

# kvctl knows its words best, so it writes the scripts itself, whenever it is built.
set(completion ${CMAKE_BINARY_DIR}/completion)
file(MAKE_DIRECTORY ${completion})
add_custom_command(TARGET kvctl POST_BUILD
                   COMMAND kvctl completion bash > ${completion}/kvctl
                   COMMAND kvctl completion zsh > ${completion}/_kvctl
                   COMMAND kvctl completion fish > ${completion}/kvctl.fish)
set(share ${CMAKE_INSTALL_DATADIR})
install(FILES ${completion}/kvctl DESTINATION ${share}/bash-completion/completions
        COMPONENT programs)
install(FILES ${completion}/_kvctl DESTINATION ${share}/zsh/site-functions COMPONENT programs)
install(FILES ${completion}/kvctl.fish DESTINATION ${share}/fish/vendor_completions.d
        COMPONENT programs)

# The unit names programs by where they come to lie, and --prefix says so only now.
set(unit ${CMAKE_BINARY_DIR}/installed/varved.service)
install(CODE "
  get_filename_component(prefix \"\${CMAKE_INSTALL_PREFIX}\" ABSOLUTE)
  file(READ \"${CMAKE_SOURCE_DIR}/deploy/systemd/varved.service\" text)
  string(REPLACE /usr/bin/ \"\${prefix}/${CMAKE_INSTALL_BINDIR}/\" text \"\${text}\")
  string(REPLACE /usr/share/ \"\${prefix}/${share}/\" text \"\${text}\")
  file(WRITE \"${unit}\" \"\${text}\")
" COMPONENT programs)
install(FILES ${unit} DESTINATION lib/systemd/system COMPONENT programs)

# Settings to start from. What an operator made of them in /etc is no business of an installation.
install(FILES ${CMAKE_SOURCE_DIR}/deploy/systemd/varved.toml
              ${CMAKE_SOURCE_DIR}/deploy/grafana/varve.json
              ${CMAKE_SOURCE_DIR}/deploy/prometheus/varve.rules.yml
        DESTINATION ${share}/varve COMPONENT programs)
# As it is included: proto/ is the folder that a compiler of it is given.
install(FILES ${CMAKE_SOURCE_DIR}/proto/varve/v1/control.proto
        DESTINATION ${share}/varve/proto/varve/v1 COMPONENT programs)
install(FILES ${CMAKE_SOURCE_DIR}/docs/OPERATIONS.md ${CMAKE_SOURCE_DIR}/LICENSE
        DESTINATION ${share}/doc/varve COMPONENT programs)
