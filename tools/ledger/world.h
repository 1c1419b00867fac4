// World: what load and audit of one data folder share: the kinds of blocks, their ids, the book.
//
// The ids are drawn once per folder and the memory is mapped once per run, because first touch is
// slow. Load threads and the audit take the lock for the book; nothing else is shared.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "client/varve.h"
#include "tools/ledger/board.h"
#include "tools/ledger/book.h"

namespace varve::ledger {

// One format of the mix and its ids, in prefix order: ids[i] is the parent of ids[i + 1] inside a
// chain of kChainBlocks.
struct Kind {
  Format format;
  uint32_t id_count = 0;
  std::vector<BaseId> ids;
};
inline constexpr uint32_t kChainBlocks = 8;
inline constexpr uint32_t kSlots = 8;  // blocks of one op at most

// From a few KiB to a few MiB, runs of small layers, unequal ranks, cuts.
// `scale` multiplies the number of ids: a tight folder needs more than fits.
std::vector<Kind> make_kinds(uint32_t folder, uint32_t scale);
// The ids need the domain's salt, so a client that has been connected.
Status make_ids(Client& client, std::vector<Kind>& kinds);
uint64_t bytes_of_all(const std::vector<Kind>& kinds);

struct World {
  std::vector<Kind> kinds;
  Room room = Room::kRoomy;
  Salt last_salt = 0;               // lock
  Book book;                        // lock
  Board board;                      // lock
  std::atomic<uint64_t> purges{0};  // answered, in all lives
  std::mutex lock;
};

// A client with memory for kSlots blocks of any kind and rank, laid out layer-major.
class Seat {
 public:
  explicit Seat(const std::vector<Kind>& kinds);
  // Opens a client to this life of the daemon; the memory stays.
  Status connect(const std::string& address, const std::vector<Kind>& kinds);
  void disconnect() { client_.reset(); }
  Client& client() { return *client_; }
  FormatId format(uint32_t kind) const { return formats_[kind]; }
  const Layout& layout(uint32_t kind, uint32_t rank) const { return layouts_[kind][rank]; }
  ByteSpan layer(uint32_t kind, uint32_t rank, uint32_t layer, uint32_t slot);
  void fill(const Kind& kind, uint32_t kind_index, const BlockId& block, uint32_t slot, Salt salt);
  std::optional<Salt> writer(const Kind& kind, uint32_t kind_index, const BlockId& block,
                             uint32_t slot);
  // What a push was granted so far: by its kReserved events.
  struct Reserved {
    std::vector<Code> codes;         // the latest
    std::vector<FollowTag> granted;  // all
  };
  // The next event of the seat's one op, kTimedOut after that time.
  Result<Event> next(OpId op, Nanos timeout_ns);
  // Waits for an answer to a push, so long at most; nothing when one was seen before.
  void await_reserved(OpId op, Nanos timeout_ns, Reserved* reserved);
  // The terminal event of the seat's one op.
  Result<Event> ended(OpId op, Nanos timeout_ns, Reserved* reserved = nullptr);
  // Nothing of an earlier op may be taken for an answer.
  void poison(const Kind& kind, uint32_t kind_index, uint32_t rank, uint32_t slot);

 private:
  std::vector<std::byte> memory_;
  std::vector<std::vector<Layout>> layouts_;  // [kind][rank]; the region is set by connect
  std::vector<std::vector<std::vector<uint32_t>>> layer_bytes_;
  std::vector<FormatId> formats_;
  std::unique_ptr<Client> client_;
  std::optional<Event> terminal_;  // that came before it was waited for
};

}  // namespace varve::ledger
