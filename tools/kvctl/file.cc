// kvctl put, kvctl get: a file into the cache and out of it again, to try a node out.
#include <nlohmann/json.hpp>

#include "tools/kvctl/call.h"
#include "tools/kvctl/file_store.h"

namespace varve::kvctl {

namespace {

Outcome store_options(const Call& call, StoreOptions* options) {
  options->address = call.arguments.address;
  options->timeout_ns = call.arguments.timeout_s == 0
                            ? kCallNanos
                            : static_cast<Nanos>(call.arguments.timeout_s * 1e9);
  options->ack =
      call.arguments.value == "cached" ? wire::AckKind::kCached : wire::AckKind::kDurable;
  return load_token_file("--client-token-file", call.arguments.client_token_file, &options->token);
}

Json json_of(const Stored& stored) {
  Json ids = Json::array();
  for (const BaseId& id : stored.ids)
    ids.push_back(to_hex(id.bytes));
  return {{"key", to_hex(stored.key.bytes)},
          {"bytes", stored.file_bytes},
          {"blocks", stored.ids.size()},
          {"blocks_there_before", stored.blocks_there},
          {"base_ids", ids}};
}

Outcome put(Call& call) {
  StoreOptions options;
  Outcome outcome = store_options(call, &options);
  if (!outcome.ok()) return outcome;
  FileStore store(options);
  Stored stored;
  outcome = store.put(call.arguments.file, &stored);
  if (!outcome.ok()) return outcome;
  // The key alone is the answer, so that KEY=$(kvctl put FILE) has it.
  std::string text = size_text(stored.file_bytes) + " in " + plural(stored.ids.size(), "block") +
                     ", " + (options.ack == wire::AckKind::kDurable ? "durable" : "cached");
  if (stored.blocks_there > 0) {
    text += "; " + count_text(stored.blocks_there) + " of them were there before";
  }
  text += "; the first is base id " + to_hex(stored.ids.front().bytes) + "\n";
  if (!call.arguments.json) call.console.err << text;
  return call.show(json_of(stored), to_hex(stored.key.bytes) + "\n");
}

Outcome get(Call& call) {
  const std::string& file = call.arguments.file;
  std::string bytes;
  Outcome outcome = read_hex("KEY", call.arguments.key, 32, 32, &bytes);
  if (!outcome.ok()) return outcome;
  NewFile copy(file, call.arguments.force ? Replace::kYes : Replace::kNo);
  outcome = copy.check();  // before minutes of transfer
  if (!outcome.ok()) return outcome;
  StoreOptions options;
  outcome = store_options(call, &options);
  if (!outcome.ok()) return outcome;
  FileStore store(options);
  Stored stored;
  outcome = store.get(load<Digest>(std::as_bytes(std::span(bytes))), copy, &stored);
  if (!outcome.ok()) return outcome;
  Json json = json_of(stored);
  json.erase("blocks_there_before");
  json["file"] = file;
  return call.show(json, size_text(stored.file_bytes) + " written to " + printable(file) +
                             "; they are what the key says\n");
}

std::vector<Option> data_plane() {
  return {{"--address", "HOST:PORT", &Arguments::address, "data plane of the node [127.0.0.1:7440]",
           Need::kOptional, "VARVE_ADDRESS"},
          {"--client-token-file", "FILE", &Arguments::client_token_file,
           "token of the domain, mode 0600 [none]", Need::kOptional, "VARVE_TOKEN_FILE"}};
}

std::vector<Option> with_data_plane(std::vector<Option> options) {
  for (const Option& option : data_plane())
    options.push_back(option);
  return options;
}

}  // namespace

Noun put_noun() {
  return {"put",
          "",
          "Put a file into the cache, to try a node out; prints its key",
          {{"",
            "Put a file into the cache, to try a node out, and print its key: the SHA-256 of its "
            "content. Whoever has the key and the domain's token can get it. It is no way to keep "
            "a file: it is evicted like any block.",
            with_data_plane({{"FILE", "FILE", &Arguments::file, "a regular file, 16 GiB at most",
                              Need::kRequired},
                             {"--ack", "durable|cached", &Arguments::value,
                              "when it counts as stored: on drives, or in memory [durable]"}}),
            {"put README.md", "put notes.txt --address kv-7:7440 --client-token-file t"},
            put}}};
}

Noun get_noun() {
  return {"get",
          "",
          "Get a file that was put, by its key, verified",
          {{"",
            "Get a file that was put, by its key. All of it is verified before FILE is made.",
            with_data_plane(
                {{"KEY", "HEX", &Arguments::key, "as kvctl put printed it", Need::kRequired},
                 {"FILE", "FILE", &Arguments::file, "to be written", Need::kRequired},
                 {"--force", "", &Arguments::force, "replace FILE where it is there"}}),
            {"get e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 copy.txt"},
            get}}};
}

}  // namespace varve::kvctl
