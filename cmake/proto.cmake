# varve_proto(name): proto/varve/v1/name.proto, generated into the build folder, as the library
# varve_proto_name. Its headers are <varve/v1/name.pb.h> and <varve/v1/name.grpc.pb.h>. Generated
# code is not ours to warn about: it has flags of its own, and is no part of tidy or clang-format.
find_program(VARVE_PROTOC protoc)
find_program(VARVE_GRPC_PLUGIN grpc_cpp_plugin)

function(varve_proto name)
  set(proto ${CMAKE_SOURCE_DIR}/proto/varve/v1/${name}.proto)
  if(NOT EXISTS ${proto})
    return()
  endif()
  if(NOT VARVE_PROTOC OR NOT VARVE_GRPC_PLUGIN)
    message(FATAL_ERROR "protoc or grpc_cpp_plugin is missing; tools/dev install brings them")
  endif()
  set(out ${CMAKE_BINARY_DIR}/proto)
  set(stem ${out}/varve/v1/${name})
  file(MAKE_DIRECTORY ${out})
  add_custom_command(
    OUTPUT ${stem}.pb.cc ${stem}.pb.h ${stem}.grpc.pb.cc ${stem}.grpc.pb.h
    COMMAND ${VARVE_PROTOC} -I ${CMAKE_SOURCE_DIR}/proto --cpp_out=${out} --grpc_out=${out}
            --plugin=protoc-gen-grpc=${VARVE_GRPC_PLUGIN} ${proto}
    DEPENDS ${proto}
    COMMENT "Generating varve/v1/${name}")
  add_library(varve_proto_${name} STATIC ${stem}.pb.cc ${stem}.grpc.pb.cc)
  target_compile_options(varve_proto_${name} PRIVATE -w)
  target_include_directories(varve_proto_${name} SYSTEM PUBLIC ${out})
  target_link_libraries(varve_proto_${name} PUBLIC grpc++ grpc gpr protobuf absl_synchronization
                        Threads::Threads)
endfunction()
