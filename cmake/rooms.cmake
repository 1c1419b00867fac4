# The table of rooms, bottom to top. DEPS are exactly the rooms whose door a room may include;
# nothing is inherited. CMake builds from this table and tools/tidy.py fails on every other edge.
# LIBS are the third-party libraries that the room, and no other, names; of ISA-L base has the
# checksums, erasure the coding. DOORS are public headers besides the one named after the room;
# DOUBLES lets the room's tests use tests/doubles.

set(kCommon common/base common/metrics common/model common/time common/reactor common/device
            common/fabric common/erasure common/placement common/wire common/env)

varve_room(common/base DOORS base.h allocation.h LIBS spdlog::spdlog crypto isal xxhash)
varve_room(common/metrics DEPS common/base)
varve_room(common/model DEPS common/base)
varve_room(common/time DEPS common/base)
varve_room(common/reactor DEPS common/base common/metrics common/time DOORS op.h
           LIBS uring)
varve_room(common/device DEPS common/base common/metrics common/time common/reactor
           DOORS fault_device.h DOUBLES)
varve_room(common/fabric DEPS common/base common/metrics common/time common/reactor
           DOORS address.h tcp_socket.h DOUBLES)
varve_room(common/erasure DEPS common/base common/model LIBS isal)
varve_room(common/placement DEPS common/base common/model)
varve_room(common/wire DEPS common/base common/model common/fabric)
varve_room(common/env DEPS common/base common/metrics common/time common/reactor common/device
                           common/fabric)

varve_doubles(DEPS ${kCommon})

varve_room(server/config DEPS common/base common/model)
varve_room(server/flash DEPS ${kCommon} DOUBLES)
varve_room(server/tier DEPS common/base common/metrics common/model common/time server/flash
           DOUBLES)
varve_room(server/index DEPS common/base common/metrics common/model server/flash DOUBLES)
varve_room(server/policy DEPS common/base common/model)
varve_room(server/tenant DEPS common/base common/model)
varve_room(server/op DEPS ${kCommon} server/config server/flash server/tier server/index
                          server/policy server/tenant DOORS part.h look.h DOUBLES)
varve_room(server/shard DEPS ${kCommon} server/config server/flash server/tier server/index
                             server/policy server/tenant server/op DOUBLES)
varve_room(server/session DEPS ${kCommon} server/config server/flash server/tenant server/op
                               server/shard DOUBLES)
varve_room(server/host DEPS common/base common/model common/time server/config)
varve_proto(control)  # proto/varve/v1/control.proto; server/control and tools/kvctl name it
varve_room(server/control DEPS common/base common/fabric common/metrics common/model common/time
           LIBS varve_proto_control)
varve_room(server/monitor DEPS common/base common/metrics
           LIBS prometheus-cpp::core civetweb::civetweb)
varve_room(server/node DEPS ${kCommon} server/config server/flash server/tier server/op server/shard
                            server/session server/host server/control server/monitor server/tenant)
varve_program(varved server DEPS common/base common/time server/config server/host server/control
                                 server/node)
varve_build_commit(varved)
if(TARGET varved)
  foreach(name varved stale settings service monitor)
    add_test(NAME e2e/${name}
             COMMAND python3 ${CMAKE_SOURCE_DIR}/tests/e2e/${name}_test.py $<TARGET_FILE:varved>)
    set_tests_properties(e2e/${name} PROPERTIES TIMEOUT ${VARVE_TEST_SECONDS_MAX})
  endforeach()
endif()

varve_room(client DEPS ${kCommon} DOORS varve.h varve_c.h DOUBLES)
if(TARGET varve_client)
  add_library(varve ALIAS varve_client)
  target_compile_definitions(varve_client PRIVATE VARVE_VERSION="${PROJECT_VERSION}")
  add_test(NAME e2e/c_layout COMMAND python3 ${CMAKE_SOURCE_DIR}/tests/e2e/c_layout_test.py)
  set_tests_properties(e2e/c_layout PROPERTIES TIMEOUT ${VARVE_TEST_SECONDS_MAX})
endif()

varve_room(tools/trace DEPS common/base)
varve_tool(tools/kvbench NAME kvbench DEPS ${kCommon} client server/flash server/tier server/index
                                            server/policy server/op server/shard tools/trace)
varve_embed(tools/kvbench declaration.schema.json varve::kvbench kDeclarationSchema)
varve_build_commit(kvbench)
varve_tool(tools/demo NAME varve_demo DEPS ${kCommon} client tools/trace tools/kvbench)
varve_tool(tools/ledger NAME varve_ledger DEPS ${kCommon} client)
varve_tool(tools/kvctl NAME kvctl DEPS ${kCommon} server/config server/flash server/host client
           LIBS varve_proto_control)
if(TARGET varved AND TARGET kvbench)
  add_test(NAME e2e/kvbench
           COMMAND python3 ${CMAKE_SOURCE_DIR}/tests/e2e/kvbench_test.py $<TARGET_FILE:kvbench>
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  add_test(NAME e2e/bars
           COMMAND python3 ${CMAKE_SOURCE_DIR}/tests/e2e/bars_test.py $<TARGET_FILE:kvbench>
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(e2e/kvbench e2e/bars PROPERTIES TIMEOUT ${VARVE_TEST_SECONDS_MAX})
endif()
if(TARGET varved AND TARGET varve_demo)
  add_test(NAME e2e/drain
           COMMAND python3 ${CMAKE_SOURCE_DIR}/tests/e2e/drain_test.py $<TARGET_FILE:varved>
                   $<TARGET_FILE:varve_demo>)
  set_tests_properties(e2e/drain PROPERTIES TIMEOUT ${VARVE_TEST_SECONDS_MAX})
  add_test(NAME e2e/client_kill
           COMMAND python3 ${CMAKE_SOURCE_DIR}/tests/e2e/client_kill_test.py $<TARGET_FILE:varved>
                   $<TARGET_FILE:varve_demo>)
  set_tests_properties(e2e/client_kill PROPERTIES TIMEOUT ${VARVE_TEST_SECONDS_MAX})
endif()
if(TARGET varved AND TARGET kvctl)
  add_test(NAME e2e/doctor
           COMMAND python3 ${CMAKE_SOURCE_DIR}/tests/e2e/doctor_test.py $<TARGET_FILE:varved>
                   $<TARGET_FILE:kvctl>)
  set_tests_properties(e2e/doctor PROPERTIES TIMEOUT ${VARVE_TEST_SECONDS_MAX})
endif()
if(TARGET varved AND TARGET varve_demo AND TARGET kvctl)
  add_test(NAME e2e/replace
           COMMAND python3 ${CMAKE_SOURCE_DIR}/tests/e2e/replace_test.py $<TARGET_FILE:varved>
                   $<TARGET_FILE:varve_demo> $<TARGET_FILE:kvctl>)
  set_tests_properties(e2e/replace PROPERTIES TIMEOUT ${VARVE_TEST_SECONDS_MAX})
  add_test(NAME e2e/demo
           COMMAND python3 ${CMAKE_SOURCE_DIR}/tests/e2e/demo_test.py $<TARGET_FILE_DIR:varved>)
  set_tests_properties(e2e/demo PROPERTIES TIMEOUT ${VARVE_TEST_SECONDS_MAX})
endif()

if(TARGET varved AND TARGET kvctl)
  # Preloaded into a varved that may be without a sanitizer, or have it within.
  add_library(test_still MODULE tests/e2e/still/still.cc)
  target_compile_options(test_still PRIVATE -fno-sanitize=all)
  target_link_options(test_still PRIVATE -fno-sanitize=all)
  add_test(NAME e2e/still
           COMMAND python3 ${CMAKE_SOURCE_DIR}/tests/e2e/still_test.py $<TARGET_FILE:varved>
                   $<TARGET_FILE:kvctl> $<TARGET_FILE:test_still>)
  set_tests_properties(e2e/still PROPERTIES TIMEOUT ${VARVE_TEST_SECONDS_MAX})
endif()

# Clients and the varved of this build.
if(TARGET varved AND TARGET varve_tools_ledger)
  varve_room_test(e2e varve_tools_ledger FALSE "")
  target_link_libraries(test_e2e PRIVATE varve_proto_control)  # an operator's client, generated
  add_dependencies(test_e2e varved kvctl)
endif()

varve_program(varve_sim tests/sim DEPS ${kCommon} server/config server/flash server/tier
              server/index server/policy server/tenant server/op server/shard server/session client
              SOURCES_OF_PATH DOUBLES)
if(TARGET varve_sim)
  add_test(NAME sim COMMAND varve_sim --once --seeds 20 --start 1
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(sim PROPERTIES TIMEOUT ${VARVE_TEST_SECONDS_MAX})
endif()
varve_mutants(varve_sim tests/sim)

varve_fuzz(wire DEPS common/base common/model common/fabric common/wire)
varve_fuzz(format DEPS common/base common/model)
varve_fuzz(fragment DEPS common/base common/model server/flash)
varve_fuzz(config DEPS common/base common/model server/config)
varve_fuzz(domain DEPS common/base common/model server/tenant)
varve_fuzz(client DEPS ${kCommon} client DOUBLES)
varve_fuzz(control DEPS common/base common/metrics common/model common/time server/control)
varve_fuzz(c_abi DEPS ${kCommon} client DOUBLES)
varve_fuzz(session DEPS ${kCommon} server/config server/flash server/op server/shard server/session
           DOUBLES)

# Where threads meet: the mailbox, and what any thread may call of the client. Built for TSan only
# (tools/dev), without what the other tests of those rooms need.
varve_thread_test(DEPS ${kCommon} client DOUBLES SOURCES
                  tests/common/reactor/mailbox_test.cc tests/client/client_test.cc
                  tests/client/name_thread_test.cc tests/client/peek_test.cc
                  tests/client/c_*_test.cc)

varve_python_test(tools/tidy tests/tools/tidy/tidy_test.py)
varve_python_test(tools/demo_play tests/tools/demo/play_test.py)
varve_python_test(tools/demo_screen tests/tools/demo/screen_test.py)
varve_python_test(vectors tests/vectors/check_vectors.py)
