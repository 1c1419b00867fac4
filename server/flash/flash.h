// flash: the slices that one shard owns, on every target of the node.
//
// Owns: the on-drive format (docs/FORMAT.md 5..9), per slice and target an append-only log of
// segments, group flush, seal, checkpoints, verified reads, reclaim with reinsertion, scrub,
// recovery, the per-target I/O queue (reads before writes, least slack first). Called by server/op
// and server/shard; the superblock functions by main before the shards start.
// Thread rule: owner core only.
// Invariants:
//   L1 a fragment is appended only after its attempt committed (I2); whole + checksummed is
//      committed.
//   L2 space is reserved at grant; an append never fails for space (I7).
//   L3 a segment is reused only after its zeroed header was flushed; reinsertions were flushed
//      before that.
//   L4 every read is verified here: header CRC with nonce, id, rank, attempt; every extent's
//      stored CRC (I1).
//   L5 demand reads never wait behind appends, flush-behind, reclaim, scrub or recovery of the same
//      target beyond the requests already at the device (I11); those others progress whatever the
//      read load (a bounded share), so nothing starves.
//   L6 a target with a request older than io_ns_max has failed: no new I/O to it, its blocks are
//      lost for now unless others hold enough of them, other targets do not notice.
//   L7 what recovery counts: fragments and bytes recovered (by source), dropped and why.
//   L8 what was purged never comes back (I10): recovery tells of every KILL record and of nothing
//      of an older generation; a record is kept as long as what it ends may be on a drive.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "common/base/base.h"
#include "common/device/device.h"
#include "common/metrics/metrics.h"
#include "common/model/model.h"
#include "common/placement/placement.h"
#include "common/reactor/reactor.h"
#include "server/flash/layout.h"

namespace varve::flash {

struct Geometry {       // fixed when a target is formatted; hashed into the superblock
  uint32_t slices = 0;  // 0 = chosen from the capacity (FORMAT 5.1): 1 .. 16; else a power of two
  uint32_t segment_pages = 0;  // 0 = chosen from the capacity (FORMAT 5.1): 4 MiB .. 256 MiB
  Scheme scheme = {};
};

// The table of FORMAT 5.1, at most kGenerationsMax rows.
using Generations = std::vector<DomainGeneration>;

// The domains of a node, at most kDomainsMax at once, as its list has them.
struct DomainIds {
  std::vector<uint32_t> ids = {kDomainDefault};  // rising
  uint32_t last = kDomainDefault;                // the largest that was ever given
  // As ids: the start in which each was made, by its boot generation. Empty: the first.
  std::vector<uint32_t> starts = {};
  bool has(uint32_t id) const { return std::binary_search(ids.begin(), ids.end(), id); }
  // Given once, and there no more: never again, so nobody has to remember what was purged of it.
  // One that is neither may be of a list that was lost.
  bool dropped(uint32_t id) const { return id <= last && !has(id); }
  // What was written before is of another domain, which had the same id and was forgotten.
  uint32_t start_of(uint32_t id) const {
    VARVE_ASSERT(has(id) && (starts.empty() || starts.size() == ids.size()), id, starts.size());
    if (starts.empty()) return 0;
    return starts[static_cast<size_t>(std::lower_bound(ids.begin(), ids.end(), id) - ids.begin())];
  }
};

// Of which lineage a fragment is, in the generations of its commit.
struct LineageMark {
  uint32_t domain = 0;
  uint32_t domain_generation = 0;
  uint64_t lineage = 0;
  uint32_t lineage_generation = 0;
  bool operator==(const LineageMark&) const = default;
};
uint32_t domain_generation(const Generations& rows, uint32_t domain);  // 0 without a row
// What is committed now carries this.
LineageMark current_mark(const Generations& rows, uint32_t domain, uint64_t lineage);
// Committed before a purge that ended it.
bool is_old(const Generations& rows, const LineageMark& mark);
// Without those of domains that were dropped.
Generations kept(Generations rows, const DomainIds& domains);
// How many rows of lineages one domain may have: none takes what others need.
uint32_t lineages_max(const DomainIds& domains);
// The table after a purge of a lineage (0: of the domain), with its new generation. kNoSpace: no
// row is left for it, which there is for each domain of the node. kUnsupported: it cannot be raised
// any further.
Result<Generations> raised(const Generations& rows, uint32_t domain, uint64_t lineage,
                           uint32_t* generation, uint32_t lineage_rows_max = kLineageRowsMax);
// Whether the limit of a purge ends an attempt: by boot generation, then counter, whatever target.
bool is_killed(const Attempt& attempt, const Attempt& limit);

// What main learns about one target before the shards start.
struct TargetInfo {
  std::string path;
  Superblock super;         // as written at this start: boot_generation already raised and flushed
  uint32_t super_page = 1;  // where that stands; the next goes to the other one
  bool formatted_now = false;
  bool is_block_device = false;  // erased segments are discarded there
};
struct TargetOptions {
  FileDeviceOptions file;
  uint32_t index = 0;
  Geometry geometry;
  uint32_t boot_generation = 0;  // of this start, from common_start(); 0 = one more than it had
  Generations generations = {};  // from common_start(): what it missed while it was away
  DomainIds domains = {};        // those of common_start(): of others it keeps no generations
  // Of one that is formatted; zero: at random. Who writes it down before it is formatted knows it
  // again after a crash.
  std::byte uuid[16] = {};
  bool blank_only = false;  // one of this node is refused, and left as it is
  bool anew = false;  // one of this node is formatted like a blank one: what it held is given up
  bool holes_stay = false;  // for a benchmark, whose file is larger than any drive here
};

// Starts by their boot generations, [first, end); end 0: they are not over.
struct Starts {
  uint32_t first = 0, end = 0;
  bool has(uint32_t start) const { return first <= start && (end == 0 || start < end); }
  bool operator==(const Starts&) const = default;
};
inline constexpr uint32_t kMissedMax = 8;  // of one target; then the oldest two count as one

// What a target saw of the purges of its node. Kept by the node beside its targets, because one
// that was away cannot know.
struct Witness {
  uint32_t from = 0;  // it was formatted in this start: no record of a purge before is on it
  // Purges of these may have been answered without it; rising, and only the last may not be over.
  std::vector<Starts> missed = {};
  bool operator==(const Witness&) const = default;
};
// By its KILL records and generations (FORMAT 7.4) it keeps away what was purged in that start.
bool knows(const Witness& witness, uint32_t start);
void begin_to_miss(Witness& witness, uint32_t start);
// It is as it was in that start, whatever it saw since.
void forget_since(Witness& witness, uint32_t start);

// What a target says before anything is written to it. All targets of a node are looked at first,
// so that each start has one boot generation for all of them: attempts of different targets are
// compared by it, and a target that was replaced, or missed a start, must not count on its own.
struct TargetLook {
  uint32_t index = 0;
  bool blank = false;  // it will be formatted
  std::byte target_uuid[16] = {};
  uint32_t boot_generation = 0;
  uint32_t slices = 0;
  uint64_t capacity_bytes = 0;
  Generations generations = {};
  Witness witness = {};  // as the node's list has it
};
// Those that missed purges of a start that none of the others knows of: they would bring back what
// was purged. Blank ones hold nothing, and know nothing.
struct Stale {
  uint32_t target = 0;
  uint32_t start = 0;
};
std::vector<Stale> stale_ones(std::span<const TargetLook> looks);

// The same while a node serves: what it has to write down.
struct WitnessNow {
  Witness witness = {};  // in and out
  bool works = false;    // for all shards
  uint32_t kept = 0;     // of purges up to this start KILL records are kept for it elsewhere
  bool drained = false;  // nobody asks it any more
};
// One that does not work misses what others take, from this start on; where none works no purge is
// answered. One that is back takes what is purged from now on, and has missed nothing when recovery
// has ended beside others that know of it all; and so has one that was put in the place of another
// during this start (`from` is the next one). What `kept` says may still lie on it, unless it is of
// before the drive: of the start before `from` too it may be, when one was put in during that.
void witness_now(std::span<WitnessNow> targets, uint32_t boot_generation, bool recovering);

// The largest fragment of a blank target of this capacity.
Result<uint32_t> fragment_pages_max(uint64_t capacity_bytes, const Geometry& geometry);
// Refuses by name what prepare_target() would refuse; writes nothing (a file may be created).
Result<TargetLook> look_target(const TargetOptions& options, const std::byte (&node_uuid)[16]);
Result<TargetLook> look_platter(MemoryPlatter& platter, const TargetOptions& options,
                                const std::byte (&node_uuid)[16]);
// What such a refusal says of the drive: gone or broken (true), or not ours (false).
bool is_lost(Status status);
// Over all targets that ever counted a start, or two starts may have one generation: what is known
// of those that are away now is handed over as one more look.
struct CommonStart {
  uint32_t boot_generation = 0;
  uint32_t slices = 0;           // of the targets there are, else chosen for the smallest blank one
  Generations generations = {};  // the larger of each: no target brings back what it did not see go
};
// kInvalid: no targets, or targets of different slices. `slices_min`: the number of shards, which
// blank targets are given at least as many slices as. kCorrupt: generations of more domains than a
// node can have had.
Result<CommonStart> common_start(std::span<const TargetLook> looks, uint32_t slices_min,
                                 const DomainIds& domains = {});
// Formats a blank target (new, or first MiB all zero), or opens one of this node. Refuses by name
// and leaves untouched: a target of another node, another index, another geometry, a newer version,
// or foreign data. kIo: what was there is gone (smaller than formatted, unreadable). Raises the
// boot generation to that of the start and flushes it. Logs nothing: the caller knows what a
// refusal means.
Result<TargetInfo> prepare_target(const TargetOptions& options, const std::byte (&node_uuid)[16],
                                  Entropy& entropy);
// The same on bytes in memory, for simulation and tests: pages 0 and 1 of a platter.
Result<TargetInfo> prepare_platter(MemoryPlatter& platter, const TargetOptions& options,
                                   const std::byte (&node_uuid)[16], Entropy& entropy);

// Where a fragment lies. 16 bytes inside the index; this is the value form. Reclaim moves
// fragments: look the place up in the turn that calls read() or release(), never keep one across
// turns.
struct Place {
  uint8_t target = 0;
  uint8_t slice = 0;
  uint16_t segment = 0;     // inside the slice
  uint32_t page = 0;        // inside the segment, < 65536
  uint32_t pages = 0;       // of the fragment, < 65536
  uint32_t lead_pages = 0;  // header + first extent
  bool operator==(const Place&) const = default;
};

struct FragmentInfo {  // what a header says, for the index
  BlockId block;
  uint32_t rank_count = 1;
  uint32_t position = 0;  // below k + m
  Attempt attempt;
  Place place;
  uint64_t block_bytes = 0;
  LineageMark mark = {};
};

enum class DropReason : uint8_t {
  kTorn,
  kOlderAttempt,
  kKilled,
  kOldGeneration,
  kForeign,
  kRot,
  kTargetLost,
  kIndexFull,
  kReclaimed,
  kMedia,  // the drive cannot read this place
};
inline constexpr uint32_t kDropReasons = 10;
const char* drop_reason_name(DropReason reason);

// What flash asks and tells the shard above it. Called inside the turn; must not call back into
// Flash except where noted. An Append's on_done returns only after the user knows its place (index
// updated) or has released it: from then on reclaim and checkpoints ask about it.
class FlashUser {
 public:
  // Recovery found a whole fragment. False: do not keep it (older attempt, index full ...); its
  // pages are dead. Of one attempt found twice the first is kept. May call release() of a place it
  // replaces.
  virtual bool on_recovered(const FragmentInfo& fragment) = 0;
  // Recovery found a KILL record: no fragment of this id, in this domain, that the limit ends
  // counts, told before or after, on whatever target. May call release(). Told of each record once
  // for each target.
  virtual void on_killed(uint32_t /*domain*/, const BaseId& /*base*/, const Attempt& /*limit*/) {}
  // Recovery will tell of this id soon: time to ask memory for its place. Changes nothing.
  virtual void on_recovery_ahead(uint32_t /*domain*/, const BaseId& /*base*/) {}
  // Another drive has the place of one that failed, works, and holds nothing: it may be given
  // fragments. Told in a turn of recovery's; may ask Flash, but begin nothing. See replace().
  virtual void on_target_replaced(uint32_t /*target*/) {}
  // A target failed at run time: what lies there is unreadable until the next start, so every place
  // on it is a miss from now on. Told once for each, in a turn of its own, when target_ok() already
  // says no. May call release() and reserve() on other targets; on_lost is not called for the
  // fragments one by one.
  virtual void on_target_failed(uint32_t target) = 0;
  // The bytes are no longer readable (rot, or a place the drive cannot read): forget this place of
  // this block, and release() it if the index still had it. May be told more than once.
  virtual void on_lost(const BlockId& block, const Place& place, DropReason reason) = 0;
  // Reclaim: is this place still what the index says? If so, is it worth copying, else it is
  // dropped now. kDead: released before. kDropped: the user forgot it just now, without release();
  // flash counts its pages.
  enum class Verdict : uint8_t { kDead, kReinsert, kDropped };
  virtual Verdict on_reclaim(const BlockId& block, const Place& place) = 0;
  // Checkpoint and scrub: is this place still what the index says? Changes nothing.
  virtual bool on_live(const BlockId& block, const Place& place) = 0;
  // Reclaim copied it; the index must now say `to`. False: it died meanwhile, the copy is dead.
  virtual bool on_moved(const BlockId& block, const Place& from, const Place& to) = 0;
  // A slice needs room: free about `pages` of live data by eviction (the policy decides what). May
  // call release().
  virtual void on_room_wanted(uint32_t target, uint32_t slice, uint32_t pages) = 0;

 protected:
  ~FlashUser() = default;
};

// A device that will not give a request back (L6): the op ends with kUnavailable and held = true,
// its pages stay with the device. Whoever owns them keeps them out of use until on_returned, which
// may never come. Without on_returned the op waits for the device instead. Bounded: no more I/O
// goes to that target.
struct Limbo {
  void (*on_returned)(void* owner) = nullptr;
  void* owner = nullptr;
};

// kSoon: whichever flush comes first, its own after some milliseconds.
enum class FlushBy : uint8_t { kNow, kSoon };

// One append: whole fragment from slab pages. Lives in its op until on_done; `flush` says when that
// is.
struct Append {
  using Done = void (*)(Append&);
  // in
  uint32_t target = 0, slice = 0;
  uint32_t pages = 0;  // must equal a reservation; fragment_pages_of(table, block, position)
  // First slab page: the caller fills what names the fragment; flash fills pages, header_pages,
  // first_extent_pages, place fields and crc here, and page_offset in the table. Bytes behind the
  // table are zero.
  FragmentHeader* header = nullptr;
  std::span<const iovec> header_pages;  // page pieces holding header + table
  std::span<iovec> runs;                // all pages of the fragment in order, header first
  int32_t buffer_index = -1;            // registered buffer that covers all runs
  FlushBy flush = FlushBy::kNow;        // on_done comes after the flush that covers it
  // out: kOk, kUnavailable (the target failed; nothing of it counts)
  Place place;
  Status status;
  bool held = false;  // see Limbo
  Done on_done = nullptr;
  void* owner = nullptr;
  Limbo limbo;
};

// One KILL record on one target (FORMAT 7.4). It needs no reservation: it waits for recovery of its
// slice, and where a slice is full, for reclaim. Of a slice an eighth at most are records, and 64
// Ki.
struct Kill {
  using Done = void (*)(Kill&);
  // in
  uint32_t target = 0, slice = 0;
  BaseId base;
  Attempt limit;      // target 0
  uint32_t away = 0;  // bit t: target t does not take this purge
  uint32_t domain = 0;
  uint32_t domains = 1;  // of the node: each has its share of the records of a slice
  // out: kOk, flushed; kUnavailable (the target failed, or a drain; it may have been written);
  // kNoSpace (the slice holds as many as it may, or of this domain: nothing was written, nothing is
  // evicted for it)
  Status status;
  Done on_done = nullptr;  // never inside kill()
  void* owner = nullptr;
  Kill* next = nullptr;  // flash's
};

// New generations: written and flushed on every target that works (FORMAT 5.1). One at a time on a
// node, always by the same shard.
struct Raise {
  using Done = void (*)(Raise&);
  // in
  Generations rows;
  // out: kOk, at least one target has them, and what failed meanwhile is not ok any more;
  // kUnavailable: none has
  Status status;
  Done on_done = nullptr;  // never inside raise()
  void* owner = nullptr;
};

// One verified read. kLead: header pages + first extent into runs; kExtent: one extent's pages.
struct Read {
  using Done = void (*)(Read&);
  enum class Kind : uint8_t { kLead, kExtent };
  Kind kind = Kind::kExtent;
  BlockId block;
  Place place;
  Attempt attempt;            // kExtent: required; kLead: none = accept; reported either way
  Digest fingerprint;         // kLead: must match, else kInvalid; zero = whatever it is (repair)
  uint32_t extent = 0;        // kExtent
  ExtentEntry entry;          // kExtent: from the header
  uint32_t header_pages = 0;  // kLead: pages of `runs` that hold the header (from extent count)
  std::span<iovec> runs;      // page pieces, in order
  int32_t buffer_index = -1;
  // Absolute on this core's clock: least first. kNever: nobody waits for it, a background read with
  // its bounded share (L5).
  Nanos wanted_ns = 0;
  // out: when its last piece so far went to the device; 0 while it waits in the queue
  Nanos at_device_ns = 0;
  // out: kOk, kCorrupt (rot: on_lost was called, or a stale place), kUnavailable (target), kIo (the
  // drive cannot read this place, tried twice: on_lost was called), kInvalid (a sound fragment of
  // another format, or runs too short for what lies there: the asker is wrong, nothing is lost)
  Status status;
  bool held = false;  // see Limbo
  Done on_done = nullptr;
  void* owner = nullptr;
  Limbo limbo;
};

struct FlashOptions {
  uint32_t shard = 0, shards = 1;
  uint32_t reads_max = 32;  // at the device, per target and shard
  // The same of demand reads in bytes, beyond which the next waits to be chosen here: a device that
  // holds more is no faster, and what is wanted sooner stands behind it.
  uint64_t read_bytes_max = 2 * kMiB;
  uint32_t writes_max = 8;
  uint32_t io_bytes_max =
      256 * 1024;  // one device request (passthrough and IOPOLL cannot split larger)
  uint32_t free_segments_min = 2;  // per slice and target, kept for reinsertion
  Nanos io_ns_max = 10 * kSecond;  // L6
  // A target that keeps a demand read longer is suspect, or a write or flush (sound drives are slow
  // with these too), or one that keeps demand reads and answers none meanwhile: readers and writers
  // who can do without it do.
  Nanos suspect_silent_ns = 25 * kMillisecond;
  Nanos suspect_ns = 100 * kMillisecond;
  Nanos suspect_write_ns = 1 * kSecond;
  Nanos checkpoint_interval_ns = 30 * kSecond;
  // A pass over all live fragments begins every so often and takes about half of that, at most
  // kScrubPauseMax between two windows; 0 = only on demand.
  Nanos scrub_interval_ns = 0;
  // Bit t: target t gets no new fragment in this life (server/op), so its segments limit nothing.
  uint32_t draining_targets = 0;
  // Also of files, where a hole would give the preallocation back; drives are discarded always.
  bool discard_erased = false;
  // For the crash ledger's self-tests only; loud at start.
  bool ack_before_flush_mutant = false;    // of fragments
  bool purge_before_flush_mutant = false;  // of KILL records
};

// Where an extent of the whole table lies: its position in the stripe (FORMAT 4.3).
uint32_t position_at(const ExtentTable& table, const BlockId& block, uint32_t extent);
// Pages of the fragment at one position: header, whole table, its extents padded to pages. Raw:
// stored bytes = decoded bytes.
uint32_t fragment_pages_of(const ExtentTable& table, const BlockId& block, uint32_t position);
// Of the largest fragment of any block with this table: of every one while the scheme is 1+0.
uint32_t fragment_pages_max_of(const ExtentTable& table);

// For the recovery bench: fills a formatted platter or target with sealed segments of 16-page
// fragments that exist only in checkpoints, `fragments` of them or as many as fit; answers how
// many.
Result<uint64_t> write_synthetic(FileHandle& file, const TargetInfo& target, uint64_t fragments);
Result<uint64_t> write_synthetic(MemoryPlatter& platter, const TargetInfo& target,
                                 uint64_t fragments);

class Flash {
 public:
  // `devices[i]` belongs to `targets[i]`. Nothing is read yet: recover() does.
  static Result<std::unique_ptr<Flash>> open(Reactor& reactor, const Clock& clock, Entropy& entropy,
                                             std::vector<TargetInfo> targets,
                                             std::vector<std::unique_ptr<BlockDevice>> devices,
                                             FlashUser& user, const FlashOptions& options);
  virtual ~Flash() = default;

  virtual void recover() = 0;  // starts
  virtual bool recovering() const = 0;
  virtual bool slice_ready(uint32_t slice) const = 0;
  // False: failed at run time (device error, stuck). Its reads and appends end with kUnavailable;
  // flash has no index, so it tells the user once (on_target_failed): what lies there is lost for
  // now and back at the next start.
  virtual bool target_ok(uint32_t target) const = 0;
  // True while a demand read is at the device for longer than suspect_ns (suspect_silent_ns, where
  // no read comes back), or a write or flush than suspect_write_ns.
  virtual bool target_suspect(uint32_t target) const = 0;
  virtual uint32_t target_count() const = 0;
  virtual uint64_t target_key(uint32_t target) const = 0;  // uuid prefix for placement
  virtual uint32_t boot_generation(uint32_t target) const = 0;
  // Larger fragments are refused at grant. Of the targets that took any when this was opened.
  virtual uint32_t fragment_pages_max() const = 0;

  // L2. False: no room now, and reclaim knows of it from now on. Exact: a reservation is a place in
  // one open segment, footer included (docs/adr/ADR-0002).
  [[nodiscard]] virtual bool reserve(uint32_t target, uint32_t slice, uint32_t pages) = 0;
  // After a refusal: more room may come of what is here, because reclaim has something to gain, or
  // what is on its way to this slice may be evicted once it is there. False: only evictions help.
  virtual bool making_room(uint32_t target, uint32_t slice) const = 0;
  virtual void unreserve(uint32_t target, uint32_t slice, uint32_t pages) = 0;
  virtual void append(Append& append) = 0;  // consumes the reservation
  virtual void read(Read& read) = 0;
  virtual void release(const Place& place) = 0;  // the fragment is dead (evicted, dropped)
  virtual void kill(Kill& kill) = 0;
  virtual void raise(Raise& raise) = 0;
  virtual Generations generations() const = 0;  // as of this start, or of the last raise() here
  virtual void checkpoint_now() = 0;            // seals nothing; on shutdown and by interval
  // Graceful stop: flushes, seals what is open, checkpoints; idle() tells when done.
  virtual void drain() = 0;
  virtual bool idle() const = 0;
  virtual void scrub_now() = 0;

  // --- of the operator
  // A pass over one target, as fast as demand leaves room. False: none begins, because one runs
  // (without pauses from now on), the target does not work or the shard drains.
  virtual bool scrub_start(uint32_t target) = 0;
  virtual void scrub_interval_set(Nanos interval_ns) = 0;  // from now on; 0 = never
  // As if it had erred (L6), with this cause. One that has failed: nothing.
  virtual void fail_target(uint32_t target, Status cause) = 0;

  // Whether another drive may have the place of this target: it has failed, and nothing of it is
  // left, neither I/O nor memory at its device, nor a promise. kInvalid: it works; kUnavailable:
  // not yet, and why. Its device begins nothing again.
  virtual Status replaceable(uint32_t target) const = 0;
  // In its place from now on, when replaceable(): a device that was formatted in this start, with
  // as many slices. The old one is closed. It is a target that has failed until its slices are
  // known to be empty and its superblock has the generations of now; then on_target_replaced().
  // kInvalid: its fragments may not be as large as the others'.
  virtual Status replace(TargetInfo info, std::unique_ptr<BlockDevice> device) = 0;

  struct Usage {  // of one target, this shard's slices
    uint64_t capacity_pages = 0, live_pages = 0, reserved_pages = 0, free_segments = 0;
    uint64_t written_pages = 0;  // since the start: appended and copied
    uint64_t limbo = 0;          // transfers whose memory the device has not given back
    // Recovery found KILL records elsewhere that are kept for it: the latest start of one; 0: none.
    uint32_t kills_missed = 0;
    bool scrub_running = false;  // the pass, and how far it is
    uint64_t scrub_pass_pages = 0, scrub_pass_done_pages = 0;
  };
  virtual Usage usage(uint32_t target) const = 0;
  virtual void register_metrics(
      MetricSet& metrics) = 0;  // recovery, append, flush, read, reclaim, scrub
};

}  // namespace varve::flash
