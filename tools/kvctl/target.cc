// kvctl targets: the drives of a node, and what is done with one; kvctl scrub: verify them now.
#include "tools/kvctl/call.h"
#include "tools/kvctl/table.h"

namespace varve::kvctl {

namespace {

constexpr size_t kUuidBytes = 16, kUuidBytesMin = 4;  // the table shows the first four

struct StateText {
  const char* text;
  Tone tone;
};

StateText state_text(v1::TargetState state) {
  switch (state) {
    case v1::TARGET_STATE_OK:
      return {"ok", Tone::kGood};
    case v1::TARGET_STATE_SUSPECT:
      return {"SUSPECT", Tone::kWarn};
    case v1::TARGET_STATE_DRAINING:
      return {"draining", Tone::kWarn};
    case v1::TARGET_STATE_DRAINED:
      return {"drained", Tone::kPlain};
    case v1::TARGET_STATE_FAILED:
      return {"FAILED", Tone::kBad};
    case v1::TARGET_STATE_LOST:
      return {"LOST", Tone::kBad};
    default:
      return {"unknown", Tone::kWarn};
  }
}

std::string scrub_text(const v1::Scrub& scrub) {
  std::string text = scrub.running() ? share_text(scrub.pass_done_bytes(), scrub.pass_bytes())
                                     : (scrub.passes() > 0 ? "done" : "-");
  if (scrub.rot() > 0) text += ", ROT " + count_text(scrub.rot());
  return text;
}

// What one target says for itself, one line a thing, beneath the table.
std::string notes_of(const v1::Target& target) {
  const std::string name = "target " + std::to_string(target.index()) + ": ";
  std::string text;
  const auto add = [&](const std::string& note) { text += wrapped(name + note, 100, "  ") + "\n"; };
  if (!target.why().empty()) add(printable(target.why()));
  if (target.limbo() > 0) {
    add(plural(target.limbo(), "transfer") +
        " whose memory the drive has not given back; it comes back when the drive answers, or with "
        "a restart");
  }
  if (target.missed_purges()) {
    add("it missed purges: it may not start alone; keep the others beside it");
  }
  if (target.shards_ok() > 0 && target.shards_ok() < target.shards()) {
    add("it works for " + std::to_string(target.shards_ok()) + " of " +
        std::to_string(target.shards()) + " shards");
  }
  if (target.drained_by_setting()) add("it is drained by --drain-target of the node's settings");
  return text;
}

std::string targets_text(const v1::ListTargetsResponse& list, const Paint& paint) {
  Table table({">INDEX", "STATE", "PATH", "UUID", ">CAPACITY", ">LIVE", ">", ">FRAGMENTS",
               ">FREE SEGMENTS", ">READ", ">WRITTEN", "SCRUB"});
  std::string notes;
  for (const v1::Target& target : list.targets()) {
    const StateText state = state_text(target.state());
    const Tone rot = target.scrub().rot() > 0 ? Tone::kBad : Tone::kPlain;
    table.row({std::to_string(target.index()), Cell(state.text, state.tone),
               printable(target.path()), hex_text(target.uuid(), 4),
               size_text(target.capacity_bytes()), size_text(target.live_bytes()),
               share_text(target.live_bytes(), target.capacity_bytes()),
               count_text(target.fragments()), count_text(target.free_segments()),
               size_text(target.read_bytes()), size_text(target.written_bytes()),
               Cell(scrub_text(target.scrub()), rot)});
    notes += notes_of(target);
  }
  return table.text(paint) + notes;
}

// One target, after something was done with it.
std::string done_text(const v1::Target& target, const Paint& paint) {
  const StateText state = state_text(target.state());
  return "target " + std::to_string(target.index()) + " " + printable(target.path()) + " is " +
         paint(state.tone, state.text) + "\n" + notes_of(target);
}

// The whole uuid of the target of that number, of which `uuid` has the first bytes.
Outcome complete_uuid(Call& call, std::string* uuid) {
  v1::ListTargetsResponse list;
  Outcome outcome = call.node.ask(v1::ListTargetsRequest(), &list);
  if (!outcome.ok()) return outcome;
  for (const v1::Target& target : list.targets()) {
    if (target.index() != call.arguments.target) continue;
    if (!target.uuid().starts_with(*uuid)) {
      return Outcome::failed("target " + std::to_string(target.index()) + ", " +
                             printable(target.path()) + ", has uuid " + hex_text(target.uuid()) +
                             ", not " + hex_text(*uuid) + "...; see kvctl targets");
    }
    *uuid = target.uuid();
    return Outcome::done();
  }
  return Outcome::failed("there is no target " + std::to_string(call.arguments.target) +
                         "; see kvctl targets");
}

// Fills index and uuid of a request about one target.
template <class Request>
Outcome name_target(Call& call, Request* request) {
  request->set_index(call.arguments.target);
  if (call.arguments.uuid.empty()) return Outcome::done();
  std::string* uuid = request->mutable_uuid();
  Outcome outcome = read_hex("--uuid", call.arguments.uuid, kUuidBytesMin, kUuidBytes, uuid);
  return outcome.ok() && uuid->size() < kUuidBytes ? complete_uuid(call, uuid) : outcome;
}

template <class Request, class Response>
Outcome change(Call& call, const Request& request) {
  Response response;
  Outcome outcome = call.node.ask(request, &response);
  if (!outcome.ok()) return outcome;
  return call.show(response, done_text(response.target(), call.paint));
}

Outcome list_targets(Call& call) {
  v1::ListTargetsResponse list;
  Outcome outcome = call.node.ask(v1::ListTargetsRequest(), &list);
  return outcome.ok() ? call.show(list, targets_text(list, call.paint)) : outcome;
}

Outcome drain_target(Call& call) {
  v1::DrainTargetRequest request;
  Outcome outcome = name_target(call, &request);
  if (!outcome.ok()) return outcome;
  return change<v1::DrainTargetRequest, v1::DrainTargetResponse>(call, request);
}

Outcome undrain_target(Call& call) {
  v1::UndrainTargetRequest request;
  Outcome outcome = name_target(call, &request);
  if (!outcome.ok()) return outcome;
  return change<v1::UndrainTargetRequest, v1::UndrainTargetResponse>(call, request);
}

Outcome fail_target(Call& call) {
  v1::FailTargetRequest request;
  request.set_force(call.arguments.force);
  Outcome outcome = name_target(call, &request);
  if (outcome.ok()) {
    outcome = call.confirm("declare target " + std::to_string(request.index()) +
                           " failed until the next start");
  }
  if (!outcome.ok()) return outcome;
  return change<v1::FailTargetRequest, v1::FailTargetResponse>(call, request);
}

Outcome replace_target(Call& call) {
  v1::ReplaceTargetRequest request;
  request.set_path(call.arguments.path);
  Outcome outcome = name_target(call, &request);
  if (outcome.ok()) {
    outcome =
        call.confirm("put a blank drive in the place of target " + std::to_string(request.index()));
  }
  if (!outcome.ok()) return outcome;
  return change<v1::ReplaceTargetRequest, v1::ReplaceTargetResponse>(call, request);
}

Outcome scrub(Call& call) {
  v1::StartScrubRequest request;
  for (const uint32_t target : call.arguments.targets)
    request.add_targets(target);
  v1::StartScrubResponse begun;
  Outcome outcome = call.node.ask(request, &begun);
  if (!outcome.ok()) return outcome;
  std::string text = "a pass begins on " + plural(begun.begun(), "target");
  if (begun.running() > 0) {
    text += "; on " + std::to_string(begun.running()) +
            " one ran already, and makes no pauses "
            "any more";
  }
  return call.show(begun, text + "; kvctl targets says how far it is\n");
}

std::vector<Option> one_target() {
  return {
      {"INDEX", "N", &Arguments::target, "its number, as kvctl targets has it", Need::kRequired},
      {"--uuid", "HEX", &Arguments::uuid,
       "do it only when this is its uuid, or its first 8 hex digits or more, as kvctl targets "
       "shows "
       "them: a number is soon mistyped"}};
}

std::vector<Option> with(std::vector<Option> options, Option option) {
  options.push_back(option);
  return options;
}

}  // namespace

Noun target_noun() {
  return {"targets",
          "target",
          "The drives of the node: list, drain, undrain, fail, replace",
          {{"list",
            "Each target: state, path, uuid, room, fragments, scrub",
            {},
            {"targets"},
            list_targets},
           {"drain",
            "Begin to empty a target, to take it out; kept over restarts",
            one_target(),
            {"targets drain 2", "targets drain 2 --uuid 5f0c1d2e"},
            drain_target},
           {"undrain",
            "End that: it takes blocks again",
            one_target(),
            {"targets undrain 2"},
            undrain_target},
           {"fail",
            "Declare that a target has failed, until the next start",
            with(one_target(),
                 {"--force", "", &Arguments::force,
                  "also when fewer than K targets are left, so that all blocks are away"}),
            {"targets fail 2", "--yes targets fail 2 --force"},
            fail_target},
           {"replace",
            "Take a blank drive in, in the place of a failed one, while the node runs",
            with(one_target(), {"--path", "FILE", &Arguments::path,
                                "that of the target; another is refused [the same path]"}),
            {"targets replace 2"},
            replace_target}}};
}

Noun scrub_noun() {
  return {"scrub",
          "",
          "Read and verify every live fragment now",
          {{"",
            "Read and verify every live fragment now",
            {{"INDEX", "N", &Arguments::targets, "targets by number [all]"}},
            {"scrub", "scrub 0 2"},
            scrub}}};
}

}  // namespace varve::kvctl
