// Segments of one slice of one target: where they lie, in which state they are, who may take the
// next one, and what is reserved in the open ones. Pure accounting, no I/O.
//
// Reservation is exact (L2): every reservation is a place in one open segment, its footer entry
// included, so a segment is chosen when room is granted and not when bytes arrive. First fit over
// the open segments, oldest first; a new segment is opened only when none fits, and only while more
// than the kept ones are free. An open segment that is no longer the newest is sealed when its last
// reservation and append are gone. Reclaim has an open segment of its own and may take the kept
// ones: what a victim holds fits in one segment, so one kept segment is enough for it to make
// progress.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/base.h"
#include "server/flash/flash.h"

namespace varve::flash {

struct TargetGeometry {
  uint32_t slices = 0;
  uint32_t segment_pages = 0;
  uint32_t segments = 0;  // per slice
  uint32_t checkpoint_pages = 0;

  uint64_t slice_pages() const {
    return 2ull * checkpoint_pages + uint64_t{segments} * segment_pages;
  }
  uint64_t checkpoint_page(uint32_t slice, uint32_t area) const {
    return kHeadPages + slice * slice_pages() + uint64_t{area} * checkpoint_pages;
  }
  uint64_t segment_page(uint32_t slice, uint32_t segment) const {
    return kHeadPages + slice * slice_pages() + 2ull * checkpoint_pages +
           uint64_t{segment} * segment_pages;
  }
  uint64_t pages() const { return kHeadPages + slices * slice_pages(); }
  // The largest fragment: what a header page and a footer of one entry leave.
  uint32_t fragment_pages_max() const { return segment_pages - 2; }
};
// What a blank target of this capacity is formatted to (FORMAT 5.1).
uint32_t choose_slices(uint64_t capacity_bytes, uint32_t slices_min);
Result<TargetGeometry> choose_geometry(uint64_t capacity_bytes, const Geometry& wanted);
// What a superblock says, checked against every limit: its CRC does not make it sane.
Result<TargetGeometry> geometry_of(const Superblock& super);
Digest geometry_hash(const Superblock& super);

enum class SegmentState : uint8_t {
  kUnknown,  // before recovery
  kFree,
  kOpen,
  kSealing,
  kSealed,
  kReclaiming,
  kErasing,
  kBad,  // its header cannot be read and it has no footer: not used until the next start
};

struct OpenSegment;

struct Segment {
  uint64_t sequence = 0;
  uint64_t nonce = 0;
  uint32_t live_pages = 0;
  uint32_t live_count = 0;
  uint32_t kill_pages = 0;                     // of the live ones: records
  std::map<uint32_t, uint32_t> kill_pages_of;  // the same by domain
  uint64_t kills_until = 0;                    // of them the longest, see kill_until()
  uint32_t used_pages = 0;                     // header page included
  uint32_t readers = 0;  // reads queued or at the device: not erased before they are done
  SegmentState state = SegmentState::kUnknown;
  // Records up to this entry of its footer were copied, or are not needed: they count here no more,
  // though reclaim may have given it up since.
  uint32_t kills_over = 0;
  bool footer_rotten = false;  // no victim: its footer does not say what it holds; see recovery
  OpenSegment* open = nullptr;
  bool readable() const {
    return state == SegmentState::kOpen || state == SegmentState::kSealing ||
           state == SegmentState::kSealed || state == SegmentState::kReclaiming;
  }
};

enum class SegmentUse : uint8_t { kAppend, kReclaim };
// kFull: open segments that nobody will append to; kAll: the newest of each use too (a drain).
enum class SealScope : uint8_t { kFull, kAll };
struct SegmentIo;  // the writer's: header, footer, seal

struct OpenSegment {
  uint32_t segment = 0;
  SegmentUse use = SegmentUse::kAppend;
  uint32_t cursor = 1;  // next page
  uint32_t entries = 0;
  uint32_t reserved_pages = 0;
  uint32_t reserved_count = 0;
  uint32_t pending = 0;     // appends and copies that have not ended
  uint32_t kills = 0;       // pages of records in it, copies aside
  SegmentIo* io = nullptr;  // since the first append
};

// A start keeps every record's id in memory until recovery is over.
inline constexpr uint64_t kKillsPerSlice = 64 * 1024;

class SliceLog {
 public:
  SliceLog(const TargetGeometry& geometry, uint32_t target, uint32_t slice, uint32_t kept_free);

  uint32_t target() const { return target_; }
  uint32_t slice() const { return slice_; }
  const TargetGeometry& geometry() const { return geometry_; }
  Segment& segment(uint32_t index) { return segments_[index]; }
  const Segment& segment(uint32_t index) const { return segments_[index]; }
  uint32_t segment_count() const { return static_cast<uint32_t>(segments_.size()); }

  // L2. False: no open segment fits and no free segment may be taken.
  [[nodiscard]] bool reserve(uint32_t pages);
  void unreserve(uint32_t pages);
  // The open segment that a reservation of `pages` lies in; consumes it. Its pending count rises.
  OpenSegment& take_reserved(uint32_t pages);
  // Room for a copy: reclaim's open segment, or a free one. Null: none is free (reclaim waits).
  OpenSegment* take_reclaim(uint32_t pages);
  // Assigns the pages at the cursor to one fragment, which counts as live from now on.
  Place place(OpenSegment& open, uint32_t pages, uint32_t lead_pages);
  // A page for a KILL record, in an open segment or a free one. Null: it waits for reclaim. Never
  // the last free one, nor reclaim's when none is free: after a crash in the middle of a victim
  // nothing may live in reclaim's segment, so that it is the free one. The pending count rises.
  OpenSegment* take_kill();
  // Records are live pages that are counted apart, copies included, because nobody can evict them:
  // beyond an eighth of the slice, or kKillsPerSlice, no new one is taken. Reclaim's copies always
  // are.
  // `until`: see kill_until().
  Place place_kill(OpenSegment& open, uint32_t domain, uint64_t until);
  void kill_add(uint32_t segment, uint32_t domain, uint64_t until);
  void kill_drop(uint32_t segment, uint32_t domain);
  bool has_kill(uint32_t segment, uint32_t domain) const;
  uint64_t kill_pages() const { return kill_pages_; }
  uint64_t kill_pages_max() const {
    return std::min(uint64_t{segment_count()} * geometry_.segment_pages / 8, kKillsPerSlice);
  }
  // No new one of this domain, of so many: each may have its share. The eighth is full before the
  // shares are only while others have what they had when there were fewer domains.
  bool kills_full(uint32_t domain, uint32_t domains) const;
  void append_ended(OpenSegment& open);
  // Open segments that may be sealed now; never-written ones become free.
  OpenSegment* next_to_seal(SealScope scope);
  // The writer took it over: it is no longer open for anybody.
  void sealing(OpenSegment& open);
  void sealed(uint32_t segment);

  // What lies in a sealed segment was found to be no fragment: the next checkpoint, made for that
  // alone, leaves it out. Its footer still tells of it.
  void forget_wanted() { checkpoint_wanted = true; }

  void live_add(uint32_t segment, uint32_t pages);
  void live_drop(uint32_t segment, uint32_t pages);

  // Pages that emptying a segment would win: how many more fragments of its own average size fit in
  // it. Not simply what is not live: one fragment of 0.6 of a segment leaves room that no other of
  // its kind can use, and copying it around for that room would never end. Records that are not
  // needed any more are as good as dead.
  uint32_t gain(const Segment& segment) const;
  // The sealed segment with the largest gain; of equal sizes that is the one with the least live
  // pages. The lowest sequence among equals.
  std::optional<uint32_t> victim() const;
  // Nothing to gain: reclaim copies nothing until new data was sealed, or a sixteenth of a segment
  // or the last of one was released. A refused reservation meanwhile asks the user to evict, and no
  // more.
  void stall();
  bool stalled() const { return stalled_; }
  void reclaiming(uint32_t segment);
  void reclaim_given_up(uint32_t segment);  // sealed as before
  void erasing(uint32_t segment);
  void erased(uint32_t segment);      // its zeroed header was flushed (L3)
  void free_found(uint32_t segment);  // recovery: free from the start

  uint32_t free_count() const { return static_cast<uint32_t>(free_.size()) - free_head_; }
  uint32_t kept_free() const { return kept_free_; }
  // Below this many free segments reclaim begins, before anybody is refused.
  uint32_t low_water() const { return low_water_; }
  uint64_t live_pages() const { return live_pages_; }
  uint64_t reserved_pages() const { return reserved_pages_; }
  uint32_t open_count() const { return static_cast<uint32_t>(open_.size()); }
  uint64_t take_sequence() { return next_sequence_++; }
  uint64_t next_sequence() const { return next_sequence_; }
  void sequence_seen(uint64_t sequence);
  // No fragment that is committed by now, or may still come of a reservation made by now, lies in a
  // segment of a larger sequence.
  uint64_t last_sequence() const { return next_sequence_ - 1 + open_count(); }
  // The least sequence that a segment which is not free has or may get, but for `except`; 0 where
  // the header of one cannot be read.
  uint64_t oldest_sequence(uint32_t except) const;

  // Set by recovery, reclaim and checkpoint.
  bool ready = false;
  bool checkpoint_wanted = false;
  bool room_refused = false;  // a reservation (or a record: 1 page) was since reclaim last looked
  uint32_t room_refused_pages = 0;
  uint64_t checkpoint_count = 0;   // write count of the last checkpoint
  uint32_t checkpoint_area = 0;    // where the last one lies
  uint32_t changed_segments = 0;   // sealed or erased since the last checkpoint
  uint64_t written_pages = 0;      // of fragments and records, since the start
  Queue<Kill, &Kill::next> kills;  // that wait for recovery or for room
  bool kills_wait = false;         // the first of them found no page: not before the next retry
  Nanos kills_ask_ns = 0;          // not before: evictions for their sake

 private:
  struct Oldest {
    uint64_t sequence = 0;
    uint32_t segment = 0;       // that has it
    uint64_t but_for_that = 0;  // the least of the others
    uint64_t of_others(uint32_t than) const { return segment == than ? but_for_that : sequence; }
  };
  Oldest oldest() const;
  uint32_t gain(const Segment& segment, const Oldest& oldest) const;
  bool fits(const OpenSegment& open, uint32_t pages) const;
  uint32_t kills_in_reclaim_max() const { return std::max(1u, geometry_.segment_pages / 16); }
  OpenSegment* open_new(SegmentUse use);
  void forget(OpenSegment& open);
  void free_push(uint32_t segment);
  void kill_note(Segment& segment, uint32_t domain, uint64_t until);

  TargetGeometry geometry_;
  uint32_t target_;
  uint32_t slice_;
  uint32_t kept_free_;
  uint32_t low_water_;
  std::vector<Segment> segments_;
  std::vector<uint16_t> free_;  // FIFO from free_head_: segments wear evenly
  uint32_t free_head_ = 0;
  // Grow to their peaks only: open segments are bounded by what is reserved, reservations by the
  // pushes that live at once.
  std::vector<std::unique_ptr<OpenSegment>> spare_;
  std::vector<std::unique_ptr<OpenSegment>> open_;  // oldest first
  struct Reservation {
    uint32_t pages;
    OpenSegment* open;
  };
  std::vector<Reservation> reservations_;
  bool stalled_ = false;
  uint64_t stall_live_pages_ = 0;
  uint64_t live_pages_ = 0;
  uint64_t kill_pages_ = 0;                     // of these
  std::map<uint32_t, uint64_t> kill_pages_of_;  // the same by domain
  uint64_t reserved_pages_ = 0;
  uint64_t next_sequence_ = 1;
};

}  // namespace varve::flash
