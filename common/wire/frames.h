// The frames of the data plane as structs (docs/WIRE.md is the text). Each head is a FrameHeader,
// one fixed body, then the arrays that the body counts. Little-endian, no padding, reserved fields
// zero.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/base.h"
#include "common/model/model.h"

namespace varve::wire {

inline constexpr uint16_t kVersion = 1;          // of this document; negotiated in HELLO
inline constexpr uint32_t kIdsMax = 2048;        // base ids per MATCH, RESERVE, PULL
inline constexpr uint32_t kTokenBytesMax = 256;  // bearer token
inline constexpr uint32_t kTextBytesMax = 256;   // client name, refusal text
inline constexpr uint32_t kBulkLanesMax = 4;
inline constexpr uint32_t kWantsMax = 4096;  // single extents asked for by one PULL
inline constexpr uint32_t kLostMax = 1024;   // extents of one LOST
inline constexpr uint32_t kHoldsMax = 1024;  // of one HELD
inline constexpr uint32_t kWhole = ~0u;      // CANCEL, FENCED: the whole op, not one extent of it
// Feature bits; negotiation drops unknown ones.
inline constexpr uint64_t kFeatureCore = 1;
inline constexpr uint64_t kFeatureEach = 2;   // MATCH of each
inline constexpr uint64_t kFeatureTiers = 4;  // PULLED says tiers
inline constexpr uint64_t kFeatures = kFeatureCore | kFeatureEach | kFeatureTiers;

enum class FrameType : uint8_t {
  kHello = 1,    // client, first on every lane
  kHelloOk = 2,  // server
  kRefused = 3,  // server, then it closes
  kFormat = 4,   // urgent, client
  kFormatOk = 5,
  kMatch = 6,
  kMatched = 7,
  kRelease = 8,
  kReleased = 9,
  kReserve = 10,
  kReserved = 11,
  kExtent = 12,  // bulk, client; carries payload
  kCommit = 13,
  kCommitted = 14,
  kAbort = 15,
  kAborted = 16,
  kPull = 17,
  kData = 18,  // bulk, server; carries payload
  kPulled = 19,
  kCancel = 20,
  kFenced = 21,
  kCredit = 22,  // urgent, client
  kPing = 23,    // both ways, urgent
  kPong = 24,
  kGoodbye = 25,  // server is draining: finish, reconnect later
  kLost = 26,     // urgent, server
  kRenew = 27,
  kRenewed = 28,
  kFollow = 29,  // answered like a PULL
  kHolds = 30,
  kHeld = 31,
  kPurge = 32,
  kPurged = 33,
};
const char* frame_type_name(FrameType type);
// A payload behind any other type, or none behind these, closes the connection.
constexpr bool carries_payload(FrameType type) {
  return type == FrameType::kExtent || type == FrameType::kData;
}

struct FrameHeader {
  uint16_t version = kVersion;
  FrameType type = FrameType::kHello;
  uint8_t reserved = 0;
  uint32_t body_bytes = 0;  // everything behind this header
  uint64_t op = 0;  // the client's, unique among its live ops of this session; replies repeat it
};
static_assert(sizeof(FrameHeader) == 16);

enum class LaneKind : uint8_t { kUrgent = 1, kBulk = 2 };
enum class AckKind : uint8_t { kCached = 1, kDurable = 2 };
enum class ReserveOutcome : uint8_t { kExists = 1, kBusy = 2, kGranted = 3, kRefused = 4 };
enum class LostState : uint8_t { kLost = 1, kLate = 2 };
enum class HoldKind : uint8_t { kLease = 1, kReservation = 2, kPull = 3, kFollow = 4 };
enum class PurgeKind : uint8_t { kBlocks = 1, kLineage = 2, kDomain = 3 };
enum class TierKind : uint8_t { kNone = 0, kDram = 1, kFlash = 2, kObject = 3 };
constexpr uint8_t tier_bit(TierKind tier) {
  return static_cast<uint8_t>(1u << static_cast<uint32_t>(tier));
}
inline constexpr uint8_t kTierBits =
    tier_bit(TierKind::kDram) | tier_bit(TierKind::kFlash) | tier_bit(TierKind::kObject);

struct Hello {  // then token[token_bytes], name[name_bytes]
  uint16_t version_min = kVersion, version_max = kVersion;
  LaneKind lane = LaneKind::kUrgent;
  uint8_t lane_index = 0;  // bulk: 0 .. kBulkLanesMax - 1
  uint16_t token_bytes = 0, name_bytes = 0;
  uint8_t reserved[6] = {};
  uint64_t features = kFeatures;
  uint64_t session = 0;         // bulk: the session of the urgent lane; urgent: 0
  uint64_t session_secret = 0;  // bulk: as given in HelloOk, so that no one else can join a session
  uint64_t pull_credit_bytes = 0;  // urgent: what the server may have in flight towards us
};
static_assert(sizeof(Hello) == 48);

struct HelloOk {
  uint16_t version = kVersion;
  uint8_t bulk_lanes_max = kBulkLanesMax;
  uint8_t reserved0 = 0;
  uint32_t slices = 0;
  uint64_t features = 0;
  uint64_t session = 0;
  uint64_t session_secret = 0;
  uint64_t boot_id = 0;  // changes at every start of the daemon
  uint64_t epoch = 0;    // of the cluster map
  uint32_t domain = 0;
  uint32_t k = 1, m = 0;  // the domain's scheme
  uint32_t lease_ms_max = 0;
  uint32_t reserve_ms_max = 0;
  uint32_t pulls_max = 0;     // per session
  uint32_t attempts_max = 0;  // live per session
  uint32_t formats_max = 0;
  Digest node;  // sha-256 of the node uuid
  Digest domain_salt;
};
static_assert(sizeof(HelloOk) == 144);

struct Refused {     // then text[text_bytes]
  uint8_t code = 0;  // Code
  uint8_t reserved = 0;
  uint16_t text_bytes = 0;
  uint16_t version_min = kVersion, version_max = kVersion;
};
static_assert(sizeof(Refused) == 8);

struct FormatBody {  // then canonical[format_bytes]
  uint32_t format_bytes = 0;
  uint32_t reserved = 0;
};
static_assert(sizeof(FormatBody) == 8);

struct FormatOk {
  uint8_t code = 0;
  uint8_t reserved[3] = {};
  uint32_t format = 0;  // handle inside this session
  Digest fingerprint;
};
static_assert(sizeof(FormatOk) == 40);

enum class MatchOf : uint8_t { kPrefix = 0, kEach = 1 };

struct Match {  // then ids[count]
  uint32_t format = 0;
  uint32_t count = 0;
  uint32_t lease_ms = 0;  // 0 = no lease; of each there is none
  MatchOf of = MatchOf::kPrefix;
  uint8_t reserved[3] = {};
};
static_assert(sizeof(Match) == 16);

struct Matched {  // then tiers[n_blocks] (TierKind, slowest over the ranks), zero-padded to 8
  uint8_t code = 0;
  uint8_t recovering = 0;  // 1: part of the index is still being rebuilt
  uint16_t reserved0 = 0;
  uint32_t n_blocks = 0;  // leading ids that every rank has; of each: all, with their tiers
  uint64_t lease = 0;     // 0 = none
  uint64_t boot_id = 0;
  uint32_t lease_ms = 0;
  uint32_t reserved1 = 0;
  uint64_t first_layer_ns = 0, last_layer_ns = 0;  // estimates for a pull of the hits
};
static_assert(sizeof(Matched) == 48);

struct Release {
  uint64_t lease = 0;
};
struct Released {
  uint8_t code = 0;
  uint8_t reserved[7] = {};
};
static_assert(sizeof(Release) == 8 && sizeof(Released) == 8);

struct Reserve {  // then ids[count], in prefix order
  uint32_t format = 0;
  uint32_t rank = 0;
  uint64_t epoch = 0;
  uint32_t hold_ms = 0;  // the reservation ends after this
  uint32_t count = 0;
  BaseId parent;  // of ids[0]; zero = first of its prefix
};
static_assert(sizeof(Reserve) == 56);

struct ReserveAnswer {
  ReserveOutcome outcome = ReserveOutcome::kRefused;
  uint8_t code = 0;  // why refused
  uint8_t reserved[6] = {};
  Attempt attempt;  // when granted
};
static_assert(sizeof(ReserveAnswer) == 24);

struct Reserved {    // then answers[count]
  uint8_t code = 0;  // not ok: the whole request was refused and count is 0
  uint8_t reserved[3] = {};
  uint32_t count = 0;
};
static_assert(sizeof(Reserved) == 8);

struct Extent {             // payload behind: bytes [offset, offset + payload) of the stored extent
  uint64_t reserve_op = 0;  // the op of RESERVE
  uint32_t index = 0;       // of the id in it
  uint32_t extent = 0;
  uint32_t offset = 0;
  uint32_t extent_bytes = 0;  // stored
  uint32_t stored_crc = 0;    // counts on the last piece
  uint32_t reserved = 0;
  Attempt attempt;
};
static_assert(sizeof(Extent) == 48);

struct Commit {  // then entries[count]
  uint64_t reserve_op = 0;
  uint64_t epoch = 0;
  uint32_t index = 0;
  AckKind ack = AckKind::kCached;
  uint8_t reserved[3] = {};
  Attempt attempt;
  uint32_t count = 0;
  uint32_t reserved1 = 0;
};
static_assert(sizeof(Commit) == 48);

struct Committed {
  uint8_t code = 0;
  AckKind ack = AckKind::kCached;
  uint8_t reserved[2] = {};
  uint32_t index = 0;
  Attempt attempt;
};
static_assert(sizeof(Committed) == 24);

struct Abort {
  uint64_t reserve_op = 0;
  uint32_t index = 0;
  uint32_t reserved = 0;
  Attempt attempt;
};
struct Aborted {
  uint8_t code = 0;
  uint8_t reserved[3] = {};
  uint32_t index = 0;
  Attempt attempt;
};
static_assert(sizeof(Abort) == 32 && sizeof(Aborted) == 24);

struct Want {  // one extent, data or parity, of one block of a PULL
  uint32_t block = 0;
  uint32_t extent = 0;
  bool operator==(const Want&) const = default;
};
static_assert(sizeof(Want) == 8);

struct Pull {  // then ids[count], wants[want_count]
  uint32_t format = 0;
  uint32_t rank = 0;
  uint64_t lease = 0;                         // 0 = best effort, nothing is promised
  uint64_t boot_id = 0;                       // of the lease
  uint64_t deadline_ns = 0;                   // duration: the whole pull
  uint64_t slack_ns = 0;                      // duration: when the first layer is wanted
  uint64_t layer_ns = 0;                      // duration between layers after that
  uint32_t layer_first = 0, layer_count = 0;  // layer_count >= 1; with wants both are 0
  uint32_t count = 0;
  uint32_t want_count = 0;  // more than 0: these extents and no others
};
static_assert(sizeof(Pull) == 64);

struct LostExtent {
  uint32_t block = 0;  // index in PULL
  uint32_t extent = 0;
  LostState state = LostState::kLost;
  uint8_t code = 0;  // why
  uint8_t reserved[6] = {};
  ExtentEntry entry;  // its row of the table: what rebuilt bytes are checked against
  Attempt attempt;
};
static_assert(sizeof(LostExtent) == 64);

struct Lost {  // then lost[count]; op: of the PULL
  uint32_t count = 0;
  uint32_t reserved = 0;
};
static_assert(sizeof(Lost) == 8);

struct Data {          // payload behind: bytes [offset, offset + payload) of the stored extent
  uint32_t block = 0;  // index in PULL
  uint32_t extent = 0;
  uint32_t offset = 0;
  uint32_t reserved = 0;
  ExtentEntry entry;
  Attempt attempt;
};
static_assert(sizeof(Data) == 64);

struct Pulled {  // then codes[count]: per block a Code (kOk: every extent asked for was sent),
                 // zero-padded to 8
  uint8_t code = 0;
  uint8_t tiers = 0;  // tier_bit of where extents that were sent had been; kFeatureTiers, else 0
  uint8_t reserved[2] = {};
  uint32_t count = 0;
};
static_assert(sizeof(Pulled) == 8);

struct Cancel {
  uint64_t target_op = 0;
  uint32_t block = kWhole, extent = kWhole;  // both kWhole, or one extent of a pull
};
struct Fenced {
  uint64_t target_op = 0;
  uint32_t block = kWhole, extent = kWhole;
};
static_assert(sizeof(Cancel) == 16 && sizeof(Fenced) == 16);
struct Credit {
  uint64_t bytes = 0;
};
struct Ping {
  uint64_t value = 0;
};
struct Goodbye {
  uint64_t drain_ms = 0;
};

struct Renew {
  uint64_t lease = 0;
  uint32_t lease_ms = 0;  // from now; 1 at least
  uint32_t reserved = 0;
};
struct Renewed {
  uint8_t code = 0;
  uint8_t reserved[3] = {};
  uint32_t lease_ms = 0;  // granted
};
static_assert(sizeof(Renew) == 16 && sizeof(Renewed) == 8);

struct FollowBlock {
  BaseId base;
  Attempt attempt;
};
static_assert(sizeof(FollowBlock) == 48);

struct Follow {  // then blocks[count]
  uint32_t format = 0;
  uint32_t rank = 0;
  uint64_t deadline_ns = 0;  // durations, as in PULL
  uint64_t slack_ns = 0;
  uint64_t layer_ns = 0;
  uint32_t layer_first = 0, layer_count = 0;
  uint32_t count = 0;
  uint32_t reserved = 0;
};
static_assert(sizeof(Follow) == 48);

struct Holds {
  uint64_t cursor = 0;  // 0 = from the start
};
struct Held {  // then holds[count]
  uint8_t code = 0;
  uint8_t reserved[3] = {};
  uint32_t count = 0;
  uint64_t cursor = 0;  // of the next HOLDS; 0 = that was all
};
static_assert(sizeof(Holds) == 8 && sizeof(Held) == 16);

struct Hold {  // what a session keeps from being evicted, or reserved
  uint64_t session = 0;
  uint64_t hold = 0;  // its number: rises over all holds of a boot
  uint64_t age_ns = 0;
  uint64_t left_ns = 0;  // until it ends by itself
  uint64_t bytes = 0;
  uint32_t count = 0;  // of blocks
  HoldKind kind = HoldKind::kLease;
  uint8_t reserved[3] = {};
  char name[48] = {};  // of the client, cut and filled with zeros
};
static_assert(sizeof(Hold) == 96);

struct Purge {  // then ids[count]
  PurgeKind kind = PurgeKind::kBlocks;
  uint8_t reserved[3] = {};
  uint32_t format = 0;  // whose lineage; 0 for the other kinds
  uint32_t count = 0;
  uint32_t reserved1 = 0;
};
struct Purged {
  uint8_t code = 0;
  uint8_t reserved[3] = {};
  uint32_t generation = 0;  // the new one, of a lineage or a domain
  uint64_t blocks = 0;      // unreachable from now on
  uint64_t bytes = 0;
  uint64_t erased_ns = 0;  // estimate: when the last of it is overwritten or discarded
};
static_assert(sizeof(Purge) == 16 && sizeof(Purged) == 32);

}  // namespace varve::wire
