// Player: requests of a trace played against a server as engines would: prefill matches, pulls what
// hits and pushes what misses, decode then pulls the whole prompt, each with a client of its own.
//
// Blocks are scaled down: `layers` layers of `layer_bytes` stand for a run of tokens of any model.
// The bytes of a block are a function of its content id and layer (WorkingSet::content), so that
// each pull is compared with what its block must hold, word by word, in memory that was poisoned
// before. Making and comparing is done between the ops, and counted apart (own_work_ns).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/kvbench/load.h"
#include "tools/kvbench/server_under_test.h"
#include "tools/kvbench/working_set.h"

namespace varve::kvbench {

// A request of the plan: what its blocks are.
struct Prompt {
  std::vector<uint32_t> content;  // dense ids, equal = equal prefix
};

struct PlayerOptions {
  uint32_t lanes = 1;
  uint32_t workers = 1;
  uint32_t layers = 16;
  uint32_t layer_bytes = 64 * kKiB;
  uint32_t blocks_max = 256;  // of a prompt
  uint32_t block_tokens = 512;
  wire::AckKind ack = wire::AckKind::kDurable;
  Nanos deadline_ns = 10 * kSecond;  // of each op
  std::string run_id;                // blocks of one run are no other's
};

// How ops ended. A miss is none of these: it is an answer.
struct Outcomes {
  uint64_t ops = 0, ok = 0;
  uint64_t refused = 0;    // overloaded, quota, no space: the server said no
  uint64_t timed_out = 0;  // no end within the deadline
  uint64_t failed = 0;     // everything else
  void count(Code code);
  void add(const Outcomes& other);
};

struct PlayedPull {
  // Of the op itself, on the clock of the load, however it ended; 0: there was none.
  Nanos began_ns = 0, took_ns = 0;
  // Since the origin: match and waiting included. The first is 0 where no layer came whole; the
  // last is when the pull, or the match before it, was known to have failed, where one has.
  Nanos first_layer_ns = 0, last_layer_ns = 0;
  bool failed = false;  // the op or its match did not end well
  uint64_t bytes = 0;
  uint32_t blocks = 0, failed_blocks = 0;
  std::vector<uint32_t> slots;                 // of the blocks that came
  uint32_t dram_blocks = 0, flash_blocks = 0;  // as the match answered
};

struct Played {
  uint32_t blocks = 0;
  uint32_t hit_blocks = 0;         // of prefill's match
  uint32_t decode_hit_blocks = 0;  // of decode's
  uint32_t misses = 0;             // matches that found nothing
  PlayedPull prefill, decode;      // decode's origin is the end of prefill
  uint32_t pushed_blocks = 0, unpushed_blocks = 0;
  uint64_t pushed_bytes = 0;
  Nanos push_ns = 0;
  uint32_t wrong_blocks = 0;
  Nanos own_work_ns = 0;
  Outcomes matches, pulls, pushes;
};

// What a pull tells of an op that began `before_ns` after the origin and ended, in an event or
// without one, `elapsed_ns` after it had begun. Pure.
void note_end(const Result<Event>& ended, Nanos before_ns, Nanos elapsed_ns, PlayedPull& out);

// Which of the `blocks` first slots came, as the op's codes say; returns how many came before the
// first that did not. Pure.
uint32_t note_blocks(const std::vector<Code>& codes, uint32_t blocks, PlayedPull& out);

enum class PlayPart : uint8_t {
  kWhole,     // what engines do with a request
  kPush,      // only pushes the whole prompt
  kPullOnly,  // only decode's match and pull; bytes are compared later, by compare()
};

class Player final : public LoadServer {
 public:
  static Result<std::unique_ptr<Player>> make(const PlayerOptions& options,
                                              const ServerUnderTest& server,
                                              const std::vector<Prompt>& prompts);
  // The load plays `part` of prompts [first, ...): its request 0 is prompt `first`.
  void begin_at(uint32_t first, PlayPart part) {
    first_ = first;
    part_ = part;
  }
  void serve(uint32_t worker, uint32_t index, Nanos origin_ns) override;

  // By prompt, as it was played last.
  const std::vector<Played>& played() const { return played_; }
  // Blocks that differ from what the prompt's must hold, in the memory that it was pulled into.
  uint32_t compare(uint32_t prompt) const;
  WorkingSet& memory(uint32_t worker) { return *seats_[worker].set; }
  uint64_t memory_bytes() const { return seats_.size() * seats_[0].set->shape().bytes(); }

 private:
  // One engine's worker: its client, and how it sees the memory of each seat.
  struct Engine {
    std::unique_ptr<Client> client;
    FormatId format = 0;
    std::vector<Layout> layouts;  // by seat
  };
  struct Seat {
    std::unique_ptr<WorkingSet> set;
  };
  explicit Player(const PlayerOptions& options) : options_(options) {}
  Status open_engine(const ServerUnderTest& server, const char* name, Engine& engine);
  Status make_ids(const std::vector<Prompt>& prompts);
  // One engine's turn at a prompt.
  struct Turn {
    const Engine& engine;
    uint32_t worker = 0, prompt = 0;
    Nanos origin_ns = 0;
    PlayedPull& pull;
    uint32_t& hit_blocks;
  };
  Result<Event> match(const Turn& turn);
  uint32_t pull_prefix(const Turn& turn, Played& played);
  uint32_t pull_blocks(const Turn& turn, PullRequest request, Played& played);
  void push_rest(uint32_t worker, uint32_t prompt, uint32_t first, Played& played);

  PlayerOptions options_;
  SystemClock clock_;
  Engine prefill_, decode_;
  std::vector<Seat> seats_;  // by worker
  std::vector<Prompt> prompts_;
  std::vector<std::vector<BaseId>> ids_;  // by prompt
  std::vector<Played> played_;            // by prompt
  std::vector<uint32_t> workers_;         // by prompt: who played it last
  uint32_t first_ = 0;
  PlayPart part_ = PlayPart::kWhole;
};

}  // namespace varve::kvbench
