// varve_c.h: the C door of libvarve, for engines that push and pull blocks of KV state.
//
// What an engine does, in the words of docs/ARCHITECTURE.md: it opens a client, registers a format
// and its memory, names the runs of tokens of a prompt by their base ids, asks how much of that
// prefix is there (match), and lets blocks be written into its memory (pull, follow) or read out of
// it (push). A base id is the 32-byte address of one run of tokens and of all before it; a block is
// what one rank has of it. examples/push_pull.c is a whole program.
//
// Calls. A call answers a varve_status; what it makes goes through its last parameter, which is
// written on VARVE_OK only. No call throws, none calls back. Submits answer at once with an op;
// what came of it is a completion, taken by varve_poll or varve_wait. Only the calls that say so
// block: those with a timeout_ns until then at most, varve_close as it says, and those marked
// "set-up" and varve_open for a turn of the client's thread (microseconds, as a rule).
//
// Threads. Every call but varve_free may be made by any thread at any time, on one client too. What
// a call writes into is its caller's to keep from other threads.
//
// Statuses. "Fails:" above a call names every status but VARVE_OK that it answers. "The usual" are
// VARVE_INVALID (a null client or an argument that is wrong), VARVE_CLOSED, VARVE_FORKED and
// VARVE_INTERNAL (no memory). "Ends:" above a submit names those of its completion besides VARVE_OK
// and the usual of any op: VARVE_CANCELLED, VARVE_TIMED_OUT, VARVE_UNAVAILABLE, VARVE_UNAUTHORIZED,
// VARVE_INVALID (what only the client's thread can see), and VARVE_OVERLOADED and VARVE_QUOTA
// (ops_max ops are in flight, or the daemon refused until the deadline).
//
// Lifetime. What a request points to is copied before its call returns. The memory of blocks is the
// exception: it stays until the op has ended, that is, until its completion is there or
// varve_quiesce answered VARVE_OK. From then on nothing touches it, not even what was late: a
// transfer into memory that belongs to another block by now is the worst that could happen.
//
// Units. Bytes; nanoseconds, as durations; tokens are uint32_t. Where a field says so, zero is its
// default.
//
// Errors are misses. A daemon that is gone fails no call: ops end with their reason, match answers
// zero blocks, the session comes back by itself. A block that cannot be had is to be recomputed,
// together with everything behind it in its prefix:
//
//   status of a block or op      what an engine does
//   ------------------------------------------------------------------------------------------
//   VARVE_MISS                   recompute: it is not there, or not there any more
//   VARVE_TIMED_OUT              recompute; the op has ended, its memory is the engine's again
//   VARVE_CORRUPT                recompute, and ask for this block no more in this request
//   VARVE_UNAVAILABLE            recompute: no daemon, or the breaker is open (match: 0 blocks)
//   VARVE_UNAUTHORIZED, _QUOTA   recompute; say it once
//   VARVE_UNSUPPORTED, _INVALID  refuse at start: the daemon cannot hold this format, or an
//                                argument is wrong; varve_last_error() and `reason` say which
//
// Structs. Those with struct_size first may grow: new fields are added at the end, zero means what
// was before. VARVE_INIT(&x) sets struct_size and zeroes the rest; then set what is to differ. A
// library that is newer than its caller takes missing fields as zero and writes no more than
// struct_size bytes; one that is older refuses fields that it does not know, unless they are zero,
// with VARVE_UNSUPPORTED. Structs without struct_size never change.
//
// Fork. In a child of the process that opened it a client is dead: every call answers VARVE_FORKED
// and touches nothing of the parent's, varve_free does nothing; open another one there. A call
// knows by a page that the system empties in a child: a load, no system call. A child of vfork()
// shares that page with its parent and may call nothing here. Copies of a client's descriptors stay
// open in the child until exec or exit, so that the daemon notices the parent's end only then.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__)
#define VARVE_API __attribute__((visibility("default")))
#else
#define VARVE_API
#endif

// Of a struct with struct_size; see above.
#define VARVE_INIT(pointer)                 \
  (memset((pointer), 0, sizeof *(pointer)), \
   (void)((pointer)->struct_size = (uint32_t)sizeof *(pointer)))

#ifdef __cplusplus
extern "C" {
#endif

// ---- words ---------------------------------------------------------------------------------

typedef struct varve_client varve_client;  // one session with one daemon, and a thread
typedef uint64_t varve_op;                 // a request in flight; 0 = none; never used again
typedef uint32_t varve_format;             // 0 = none; good for its client, across reconnects
typedef uint32_t varve_region;             // registered memory; 0 = none
typedef uint32_t varve_layout;             // where blocks lie in regions; 0 = none
typedef uint64_t varve_lease;              // blocks stay readable; 0 = none

typedef int32_t varve_status;
enum {
  VARVE_OK = 0,
  VARVE_INVALID = 1,       // an argument is wrong: which, says varve_last_error()
  VARVE_UNAUTHORIZED = 2,  // no token, or a wrong one
  VARVE_QUOTA = 3,         // a limit of this tenant or session, until the deadline
  VARVE_OVERLOADED = 4,    // a limit of the daemon, until the deadline, or of this client
  VARVE_UNAVAILABLE = 5,   // no session with a daemon, or the breaker is open
  VARVE_TIMED_OUT = 6,     // a deadline, a timeout or a lease passed
  VARVE_CANCELLED = 7,
  VARVE_CORRUPT = 8,  // bytes that are not those which were pushed: they were not delivered
  VARVE_IO = 9,
  VARVE_NO_SPACE = 10,
  VARVE_UNSUPPORTED = 11,  // known, but not by this library or daemon
  VARVE_INTERNAL = 12,
  // From here on of this library alone.
  VARVE_MISS = 64,     // of a block: it is not there, or not there any more
  VARVE_PARTIAL = 65,  // varve_wait_layer: of some blocks; the bitmap says which
  VARVE_PENDING = 66,  // varve_match_peek: not answered yet; ask again
  VARVE_UNKNOWN = 67,  // no such op or tag, or its completion was taken
  VARVE_CLOSED = 68,   // varve_close was called
  VARVE_FORKED = 69    // this is a child of the process that opened the client
};

#define VARVE_NONE 0xffffffffu  // where 0 is a default and none, or never, is meant

typedef struct varve_id {  // a base id; all zero: none
  uint8_t bytes[32];
} varve_id;

// A block of a push that is under way: what another process needs to follow it, to be handed over
// by whatever way the two have; good for the daemon that granted it.
typedef struct varve_follow_tag {
  uint8_t bytes[48];
} varve_follow_tag;

// ---- the library ---------------------------------------------------------------------------

// "0.1.0"; static. Never fails.
VARVE_API const char* varve_version(void);
// What a status means, in a few words; static, never null. Never fails.
VARVE_API const char* varve_strerror(varve_status status);
// Why the last call of this thread that failed did so, cause and remedy; "" when none has failed.
// Good until the thread's next call that fails. Never fails.
VARVE_API const char* varve_last_error(void);

// Bits of varve_capabilities(): what this build can do. A bit that is not set is refused by name,
// with VARVE_UNSUPPORTED, where it would be asked for. What a daemon cannot do, ops say by the same
// status.
#define VARVE_CAN_MATCH (1ull << 0)   // with lease, tag and peek
#define VARVE_CAN_EXISTS (1ull << 1)  // by id instead of by prefix
#define VARVE_CAN_PULL (1ull << 2)
#define VARVE_CAN_FOLLOW (1ull << 3)
#define VARVE_CAN_PUSH (1ull << 4)
#define VARVE_CAN_BUFFERS (1ull << 5)  // lists of addresses instead of a layout
#define VARVE_CAN_PURGE (1ull << 6)
#define VARVE_CAN_HOLDS (1ull << 7)
#define VARVE_CAN_BREAKER (1ull << 8)
#define VARVE_CAN_TCP (1ull << 16)
#define VARVE_CAN_BOUNCE (1ull << 27)      // buffers outside of every region
#define VARVE_CAN_PULL_TIERS (1ull << 38)  // tier_mask of pulls: where their blocks came from
// Not set by this version:
#define VARVE_CAN_SHM (1ull << 17)
#define VARVE_CAN_RDMA (1ull << 18)
#define VARVE_CAN_CUDA_REGIONS (1ull << 24)    // VARVE_MEMORY_CUDA
#define VARVE_CAN_SHARED_REGIONS (1ull << 25)  // VARVE_MEMORY_SHARED
#define VARVE_CAN_PREFETCH (1ull << 26)        // VARVE_MATCH_PREFETCH
// Nor set by this version, which has no call for them; what an engine does instead:
#define VARVE_CAN_TOUCH (1ull << 32)        // a match or exists of the ids keeps them as recent
#define VARVE_CAN_REPORT_BAD (1ull << 33)   // varve_purge_submit of the block, so that none has it
#define VARVE_CAN_PRIORITY (1ull << 34)     // of a match: all are alike; slack_ns orders pulls
#define VARVE_CAN_PIN (1ull << 35)          // a lease, renewed while it is needed
#define VARVE_CAN_SHOULD_LOAD (1ull << 36)  // the estimates of a match against its own prefill rate
#define VARVE_CAN_READY_EVENT (1ull << 37)  // varve_push_layer once its event of the GPU has come
// Which of the above this build can do. Never fails.
VARVE_API uint64_t varve_capabilities(void);

// ---- a client ------------------------------------------------------------------------------

typedef struct varve_options {
  uint32_t struct_size;
  uint32_t bulk_lanes;             // connections for bytes, 1 .. 4; default 1
  char address[256];               // "host:port"; default "127.0.0.1:7440"; see varve_open
  char token[264];                 // at most 256 bytes; default none, good for loopback only
  char name[264];                  // shown to operators, at most 256 bytes; default "engine"
  uint64_t pull_credit_bytes;      // under way to this client; at least 16 MiB, default 64 MiB
  uint64_t parity_scratch_bytes;   // 1 MiB to 4 GiB, default 16 MiB
  uint64_t rebuild_scratch_bytes;  // 56 MiB to 128 MiB, default 64 MiB
  uint32_t populate_scratch;       // 1 = make both resident with the first session; default no
  uint32_t
      hedge_percent;  // of pulled bytes, asked for twice when late; default 5, VARVE_NONE: never
  uint32_t ops_max;   // in flight; default 256
  // After so many in a row of matches and pulls that timed out, or these and pushes that were
  // unavailable, a match is answered with zero blocks at once, but for one in every
  // breaker_probe_ns, until one of them is answered or the session comes back. Default 5;
  // VARVE_NONE = never.
  uint32_t breaker_failures;
  uint64_t breaker_probe_ns;  // default 1 s
  uint64_t connect_ns_max;    // default 2 s
  uint64_t reconnect_ns_min;  // default 50 ms, doubles up to
  uint64_t reconnect_ns_max;  // default 2 s
  uint64_t fence_ns_max;      // a cancelled op ends within this; default 1 s
  uint64_t ping_interval_ns;  // silence of two: the session is lost; default 10 s
  // Of the whole process, to stderr; default VARVE_LOG_WARN.
  uint32_t log_level;
  uint32_t reserved;  // 0
  // Copies of what is pushed from buffers outside of every region: 1 MiB to 1 GiB, default 16 MiB,
  // used when there are such. Full: pushes wait until some of it has left. VARVE_NONE: ops on such
  // buffers, pulls too, end with VARVE_INVALID.
  uint64_t bounce_bytes;
} varve_options;
enum { VARVE_LOG_DEBUG = 1, VARVE_LOG_INFO = 2, VARVE_LOG_WARN = 3, VARVE_LOG_ERROR = 4 };

// Sets the field of that name from text, as engines have it in their own configuration. Bytes take
// KiB, MiB, GiB; durations want ns, us, ms or s; log_level takes debug, info, warn, error;
// hedge_percent, breaker_failures and bounce_bytes take none. VARVE_INVALID for an unknown name, a
// text that does not parse or does not fit: *options is as before then. Fails: VARVE_INVALID,
// VARVE_INTERNAL.
VARVE_API varve_status varve_options_set(varve_options* options, const char* name,
                                         const char* text);

// Starts the client's thread and connects in the background: a daemon that is down is no error, nor
// is a name without an address; ops end with VARVE_UNAVAILABLE until there is one, and varve_state
// says why. A name is kept: it is looked up on a thread of its own, before each connect but at most
// every 10 s, and each of its addresses (16) has its turn. A lookup that fails, or takes longer
// than connect_ns_max, leaves the addresses of before. Null options: the defaults. Close it, then
// free it. Fails: VARVE_INVALID for options that cannot work (an address that can never be right
// too); VARVE_UNSUPPORTED a field of a later version; VARVE_IO the system has no descriptor left;
// VARVE_INTERNAL neither thread nor memory.
VARVE_API varve_status varve_open(const varve_options* options, varve_client** client);
// Ends the session: ops in flight are cancelled and quiesced, waiting calls return, leases end, the
// thread stops. Blocks; at most fence_ns_max + 1 s; a lookup that stands still is not waited for:
// its thread ends when the resolver does. From then on calls answer VARVE_CLOSED. Completions that
// nobody took are gone. Closing again is VARVE_OK. Fails: VARVE_INVALID (null),
// VARVE_FORKED, VARVE_INTERNAL.
VARVE_API varve_status varve_close(varve_client* client);
// Closes it if need be and gives its memory back; null is fine. No other call of the client may be
// under way, or come later. Never fails.
VARVE_API void varve_free(varve_client* client);

// Blocks until there is a session. Fails: the usual; VARVE_TIMED_OUT, or why there is none:
// VARVE_UNAVAILABLE, VARVE_UNAUTHORIZED the token, VARVE_UNSUPPORTED the daemon's version,
// VARVE_OVERLOADED all its sessions are taken, VARVE_IO, VARVE_CORRUPT it says what is no frame.
VARVE_API varve_status varve_wait_ready(varve_client* client, uint64_t timeout_ns);
enum {
  VARVE_STATE_CONNECTING = 0,
  VARVE_STATE_READY = 1,
  VARVE_STATE_WAITING = 2,  // the daemon was not reached; again in a moment
  VARVE_STATE_CLOSED = 3
};
// *state as above; `why` receives the last reason of not being ready, for people, cut to why_bytes
// with its ending zero (null and 0: not wanted). Fails: the usual.
VARVE_API varve_status varve_state(varve_client* client, uint32_t* state, char* why,
                                   size_t why_bytes);

// Counted since the client was opened.
typedef struct varve_stats {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t matches, match_ids, hit_ids;
  uint64_t pulls, pulled_blocks, pulled_bytes, failed_blocks, corrupt_extents;
  uint64_t follows, followed_blocks, followed_bytes;
  uint64_t renewed_leases, lapsed_leases;
  uint64_t pushes, pushed_blocks, pushed_bytes, existing_blocks, refused_blocks;
  uint64_t parity_bytes, parity_waits;
  uint64_t rebuilt_extents, rebuilt_bytes;
  uint64_t hedges, hedges_won, hedges_refused, hedged_bytes;
  uint64_t retries, retried_blocks;
  // Above 0: the daemon came back with another salt; base ids of before miss for ever.
  uint64_t identity_changes;
  uint64_t connects, disconnects, timeouts, cancels, discarded_bytes;
  // The breaker: how often it opened, matches that it answered, probes that it let through.
  uint64_t breaker_opens, breaker_answers, breaker_probes;
  uint64_t tags_forgotten;  // answers that made room for others, see varve_match_peek
  // Buffers outside of every region: ops with some, bytes that were copied for that, and how often
  // a push found bounce_bytes full. More than 0 where none is meant: a region is missing.
  uint64_t bounced_ops, bounced_bytes, bounce_waits;
} varve_stats;
// Fails: the usual.
VARVE_API varve_status varve_stats_read(varve_client* client, varve_stats* stats);

// ---- formats and base ids ------------------------------------------------------------------

enum {  // varve_format_desc.type
  VARVE_TYPE_BF16 = 1,
  VARVE_TYPE_FP16 = 2,
  VARVE_TYPE_FP8_E4M3 = 3,
  VARVE_TYPE_FP8_E5M2 = 4,
  VARVE_TYPE_FP32 = 5,
  VARVE_TYPE_INT8 = 6,
  VARVE_TYPE_OPAQUE = 7
};
enum {  // varve_format_desc.order: of the values in a layer
  VARVE_ORDER_NHD = 1,
  VARVE_ORDER_HND = 2,
  VARVE_ORDER_PAGE_FIRST = 3,
  VARVE_ORDER_OPAQUE = 4
};
enum {  // varve_layer.kind
  VARVE_LAYER_FULL = 1,
  VARVE_LAYER_SLIDING = 2,
  VARVE_LAYER_LATENT = 3,
  VARVE_LAYER_STATE = 4,
  VARVE_LAYER_OPAQUE = 5
};
typedef struct varve_layer {
  uint32_t kind;
  uint32_t bytes;  // of this layer in one block of one rank; at most 64 MiB
} varve_layer;
typedef struct varve_rank {   // of tensor and pipeline parallelism: what one worker has
  const varve_layer* layers;  // in the order in which the engine needs them
  uint32_t layer_count;       // at most 1024
  uint32_t reserved;          // 0
} varve_rank;
typedef struct varve_extra {  // both end with a zero, at most 256 bytes each
  const char* key;
  const char* value;
} varve_extra;
// All that decides what the bytes of a block mean. Two engines that differ in any of it never see
// each other's blocks.
typedef struct varve_format_desc {
  uint32_t struct_size;
  uint32_t type;   // of KV values
  uint32_t order;  // of them
  uint32_t tokens_per_block;
  uint8_t model[32];    // digest of the weights; not all zero
  uint8_t adapter[32];  // digest of an adapter; all zero = none
  const char* lineage;  // of the weights: revision, fine-tuning line; at most 256 bytes
  const varve_rank* ranks;
  uint32_t rank_count;  // at most 32; a match answers what all of them have
  uint32_t extra_count;
  const varve_extra* extras;  // whatever else two engines could differ in; keys differ; at most 32
} varve_format_desc;

// Set-up. The same description gives the same format. What the daemon says of it comes with the
// first op: VARVE_UNSUPPORTED when its targets cannot hold such blocks. Fails: the usual;
// VARVE_UNSUPPORTED a field of a later version; VARVE_OVERLOADED 256 are registered.
VARVE_API varve_status varve_format_register(varve_client* client, const varve_format_desc* desc,
                                             varve_format* format);
// The 32-byte digest of the description, the same on every machine. Fails: the usual.
VARVE_API varve_status varve_format_fingerprint(varve_client* client, varve_format format,
                                                varve_id* fingerprint);

typedef struct varve_bytes {
  const void* data;
  size_t bytes;
} varve_bytes;
typedef struct varve_tokens {
  uint32_t struct_size;
  varve_format format;
  varve_id parent;  // the last id of the runs before these; all zero: there are none
  const uint32_t* tokens;
  size_t token_count;  // what is left behind the last whole run is not looked at
  // What else the KV of each run depends on beside its tokens: identifiers of images, a salt of the
  // request. Null, or one for each whole run, at most 4096 bytes each.
  const varve_bytes* extras;
  size_t extra_count;
} varve_tokens;
// Set-up. The ids of the whole runs of tokens_per_block tokens, chained on `parent`: as a sequence
// grows, the last id goes in as the next parent. Fails: the usual, VARVE_INVALID with *count = the
// room that is needed when `capacity` is too small; VARVE_UNAVAILABLE before the first session, as
// the salt of the domain is the daemon's; VARVE_UNSUPPORTED a field of a later version.
VARVE_API varve_status varve_base_ids(varve_client* client, const varve_tokens* tokens,
                                      varve_id* ids, size_t capacity, size_t* count);
// Set-up. The id of a run that the engine already has a stable content hash of, 16 to 64 bytes: one
// that is chained over the prefix and equal in every process. Fails: the usual; VARVE_UNAVAILABLE
// before the first session.
VARVE_API varve_status varve_base_id_of_hash(varve_client* client, varve_format format,
                                             const void* hash, size_t hash_bytes, varve_id* id);

// ---- memory --------------------------------------------------------------------------------

enum {
  VARVE_MEMORY_HOST = 0,
  VARVE_MEMORY_SHARED = 1,  // VARVE_UNSUPPORTED so far: see varve_capabilities
  VARVE_MEMORY_CUDA = 2     // VARVE_UNSUPPORTED so far
};
typedef struct varve_region_desc {
  uint32_t struct_size;
  uint32_t kind;
  void* data;
  uint64_t bytes;
} varve_region_desc;
// Set-up. The memory stays where it is until it is unregistered. What is pushed from it has to be
// readable, what is pulled into it writable; so has memory in no region. The library cannot look:
// where it is not so the session is lost (VARVE_IO) or the process ends (SIGSEGV). Fails: the
// usual; VARVE_UNSUPPORTED this kind of memory, or a field of a later version; VARVE_OVERLOADED
// 4096 are registered.
VARVE_API varve_status varve_region_register(varve_client* client, const varve_region_desc* desc,
                                             varve_region* region);
// Set-up. Fails: the usual; VARVE_OVERLOADED while an op uses it: quiesce the op, then again.
VARVE_API varve_status varve_region_unregister(varve_client* client, varve_region region);

// Where one layer of all blocks lies: slot s begins at region + offset + s * stride and is
// `segments` equal pieces, the next one segment_stride bytes behind (0 and 1: contiguous).
typedef struct varve_layer_layout {
  varve_region region;
  uint32_t segments;
  uint64_t offset;
  uint64_t stride;
  uint64_t segment_stride;
} varve_layer_layout;
typedef struct varve_layout_desc {
  uint32_t struct_size;
  varve_format format;
  uint32_t rank;
  uint32_t layer_count;  // as many as the rank has
  const varve_layer_layout* layers;
} varve_layout_desc;
// Regions and bounds are looked at by the op that uses it, for its slots. Fails: the usual;
// VARVE_UNSUPPORTED a field of a later version; VARVE_OVERLOADED 4096 are defined.
VARVE_API varve_status varve_layout_define(varve_client* client, const varve_layout_desc* desc,
                                           varve_layout* layout);
// Fails: the usual; VARVE_OVERLOADED while an op uses it.
VARVE_API varve_status varve_layout_undefine(varve_client* client, varve_layout layout);

// Instead of a layout: the address of each layer of each block, block by block, as engines have
// them that move opaque chunks; the format then has one layer for each buffer of a block. A buffer
// that is null or has not exactly the layer's bytes ends the op with VARVE_INVALID.
//
// Nothing of a buffer that lies in one region as a whole is copied on the way. Any other, also one
// that lies in a region in part or in two, bounces: connections get a copy of its bytes, made in
// memory of the library's, and only the client's thread touches the buffer. That is slower, bounded
// (bounce_bytes) and counted (varve_stats), and changes nothing of what a caller may do when: what
// is pushed is read after varve_push_layer, at some time before the op ends; a pulled layer is
// written before it is told of as done. The memory is the caller's again when the op has ended, not
// sooner, and nothing reads or writes it from then on, as said under Lifetime. Keeping it so long
// is the caller's: of a region varve_region_unregister says when an op still uses it, of other
// memory nobody does.
typedef struct varve_buffer {
  void* data;
  uint64_t bytes;
} varve_buffer;

// Which blocks an op is of, and where they are in memory.
typedef struct varve_blocks {
  const varve_id* ids;  // in prefix order, 1 .. 2048
  uint32_t count;
  varve_layout layout;  // and slots[count],
  const uint32_t* slots;
  const varve_buffer* buffers;  // or, when layout is 0, count * layers of `rank`,
  varve_format format;          // with these two
  uint32_t rank;
} varve_blocks;

// ---- match ---------------------------------------------------------------------------------

#define VARVE_MATCH_PEEK_ONLY 1u  // needs a tag; no completion: varve_match_peek has the answer
#define VARVE_MATCH_PREFETCH 2u   // VARVE_UNSUPPORTED so far: see varve_capabilities
typedef struct varve_match_request {
  uint32_t struct_size;
  varve_format format;
  const varve_id* ids;  // in prefix order, 1 .. 1048576; no block is moved or promoted
  uint32_t count;
  uint32_t flags;
  uint32_t lease_ms;     // what is found stays readable for so long; 0 = no lease
  uint32_t reserved;     // 0
  uint64_t deadline_ns;  // default 1 s
  uint64_t tag;          // 0 = none
} varve_match_request;
// How many of the first blocks every rank has. With a tag that is not answered yet the op that asks
// already is returned, whatever else this request says; with one that is answered it is asked anew
// and the answer of before is forgotten (its lease, if any, is still the caller's). Fails: the
// usual; VARVE_UNSUPPORTED a flag or a field of a later version; VARVE_OVERLOADED 4096 tags wait
// for their answer, or 65536 completions for varve_poll. Ends: VARVE_UNSUPPORTED the daemon cannot
// hold the format.
VARVE_API varve_status varve_match_submit(varve_client* client, const varve_match_request* request,
                                          varve_op* op);

// The daemon still reads its targets: there may be more later.
#define VARVE_ANSWER_RECOVERING 1u
typedef struct varve_match_answer {
  uint32_t struct_size;
  varve_status status;  // not VARVE_OK: why there are no blocks
  varve_op op;
  uint32_t hit_count;
  uint32_t flags;
  varve_lease lease;
  uint64_t lease_left_ns;  // by this answer: later renewals are not seen here
  uint64_t age_ns;         // since it was answered
  uint64_t first_layer_ns_estimate, last_layer_ns_estimate;
  uint32_t slowest_tier;  // of the hits: VARVE_TIER_*
  uint32_t reserved;
} varve_match_answer;
enum { VARVE_TIER_NONE = 0, VARVE_TIER_DRAM = 1, VARVE_TIER_FLASH = 2, VARVE_TIER_OBJECT = 3 };
// What is known of a tag: VARVE_OK and the answer, VARVE_PENDING or VARVE_UNKNOWN. Reads memory and
// the clock only: no lock, no waiting. An answer stays until it is forgotten; of 4096 tags the one
// answered longest ago makes room for a new one (counted in tags_forgotten). Fails: the usual;
// VARVE_PENDING, VARVE_UNKNOWN.
VARVE_API varve_status varve_match_peek(varve_client* client, uint64_t tag,
                                        varve_match_answer* answer);
// Drops the answer of a tag, and cancels it when there is none yet. Its lease is not released.
// Fails: the usual.
VARVE_API varve_status varve_match_forget(varve_client* client, uint64_t tag);

typedef struct varve_exists_request {
  uint32_t struct_size;
  varve_format format;
  const varve_id* ids;  // 1 .. 1048576
  uint32_t count;
  uint32_t reserved;     // 0
  uint64_t deadline_ns;  // default 1 s
  uint64_t tag;          // given back, nothing else: not those of matches
} varve_exists_request;
// The completion's bitmap, codes and tiers say of each id whether every rank has it, whatever is
// missing before it; hit_count how many there are. A round trip for each 2048 ids, as a match.
// Fails: the usual; VARVE_UNSUPPORTED a field of a later version; VARVE_OVERLOADED 65536
// completions wait for varve_poll. Ends: VARVE_UNSUPPORTED the daemon cannot hold the format, or is
// older than this question.
VARVE_API varve_status varve_exists_submit(varve_client* client,
                                           const varve_exists_request* request, varve_op* op);

// Asks for `lease_ms` from now. The daemon bounds it; the completion says what is left. Its
// deadline is 1 s, whatever the lease: begin earlier than that before the end. Fails: the usual;
// VARVE_OVERLOADED 65536 completions wait for varve_poll. Ends: VARVE_TIMED_OUT it is over.
VARVE_API varve_status varve_lease_renew(varve_client* client, varve_lease lease, uint32_t lease_ms,
                                         uint64_t tag, varve_op* op);
// Gives it up. 0 and leases that are over are fine. Fails: the usual.
VARVE_API varve_status varve_lease_release(varve_client* client, varve_lease lease);
// Set-up. *left_ns is 0 when it is over, or none of ours. Fails: the usual.
VARVE_API varve_status varve_lease_left(varve_client* client, varve_lease lease, uint64_t* left_ns);

// ---- pull, follow, push --------------------------------------------------------------------

#define VARVE_TELL_LAYERS 1u    // pull, follow: a completion VARVE_DONE_LAYER for each layer too
#define VARVE_TELL_RESERVED 2u  // push: completions VARVE_DONE_RESERVED with follow tags too
#define VARVE_PUSH_FINAL 4u     // every layer is final already: no varve_push_layer is needed
#define VARVE_PUSH_CACHED 8u    // acknowledged in the daemon's memory, not on its drives

typedef struct varve_pull_request {
  uint32_t struct_size;
  uint32_t flags;
  varve_blocks blocks;  // with a lease, of one run of 2048 ids of its match
  uint32_t layer_first;
  uint32_t layer_count;  // 0 = all from layer_first on
  varve_lease lease;     // 0 = as long as they are there; renewed by itself while the op runs
  uint64_t deadline_ns;  // default 10 s
  uint64_t slack_ns;     // the first layer is wanted in; 0 = as soon as can be
  uint64_t layer_ns;     // and one more in each of these
  uint64_t tag;
} varve_pull_request;
// Layers come in order, each verified; see varve_wait_layer. Slots of blocks that fail hold nothing
// that is of use. Fails: the usual; VARVE_UNSUPPORTED a flag or a field of a later version;
// VARVE_OVERLOADED 4096 pulls and follows or 65536 completions wait for varve_poll. Ends:
// VARVE_TIMED_OUT the lease is over too; VARVE_UNSUPPORTED the daemon cannot hold the format; of
// blocks VARVE_MISS, VARVE_CORRUPT, VARVE_IO too.
VARVE_API varve_status varve_pull_submit(varve_client* client, const varve_pull_request* request,
                                         varve_op* op);

typedef struct varve_follow_request {
  uint32_t struct_size;
  uint32_t flags;
  varve_blocks blocks;           // ids may be null: the tags name them
  const varve_follow_tag* tags;  // blocks.count of them
  uint32_t layer_first;
  uint32_t layer_count;
  uint64_t deadline_ns;  // default 30 s
  uint64_t slack_ns;
  uint64_t layer_ns;
  uint64_t tag;
} varve_follow_request;
// A pull of what another client still pushes: layers come as they are pushed. What came counts only
// when the completion says VARVE_OK of its block: the push may yet fail. Codes of blocks besides
// those of a pull: VARVE_CANCELLED its push was given up, VARVE_TIMED_OUT it did not end in its
// time, VARVE_MISS no such push. Fails: as varve_pull_submit, the usual; VARVE_UNSUPPORTED,
// VARVE_OVERLOADED. Ends: as that.
VARVE_API varve_status varve_follow_submit(varve_client* client,
                                           const varve_follow_request* request, varve_op* op);

typedef struct varve_push_request {
  uint32_t struct_size;
  uint32_t flags;
  varve_blocks blocks;
  varve_id parent;       // the id before blocks.ids[0]; all zero: none
  uint64_t deadline_ns;  // default 30 s
  uint64_t tag;
} varve_push_request;
// Writes blocks once: one that exists is VARVE_OK and costs no bytes. Without VARVE_PUSH_FINAL each
// layer leaves when varve_push_layer says that it is final in all blocks; after the last one the op
// commits by itself, until then no match sees it. Give it up with varve_cancel. Fails: the usual;
// VARVE_UNSUPPORTED a flag or a field of a later version; VARVE_OVERLOADED 65536 completions wait
// for varve_poll. Ends: VARVE_UNSUPPORTED the daemon cannot hold the format; of blocks
// VARVE_NO_SPACE, VARVE_CORRUPT (a checksum of what arrived), VARVE_IO too.
VARVE_API varve_status varve_push_submit(varve_client* client, const varve_push_request* request,
                                         varve_op* op);
// Any order; VARVE_NONE = every layer. Of a push that has ended it does nothing. Fails: the usual,
// also of an op that is no push or has no such layer; VARVE_UNKNOWN when the completion was taken.
VARVE_API varve_status varve_push_layer(varve_client* client, varve_op op, uint32_t layer);

// Of a pull or follow: how many layers, from layer_first on, are in place. Never falls, reads
// memory only. Fails: the usual; VARVE_UNKNOWN once its completion was taken.
VARVE_API varve_status varve_layers_done(varve_client* client, varve_op op, uint32_t* layers);
// Blocks until `layer` is in place. VARVE_OK: of every block. VARVE_PARTIAL: of those whose bit is
// set, bit i of byte i / 8 (null: not wanted; bitmap_bytes at least (count + 7) / 8). The op's own
// status when it ended before; VARVE_TIMED_OUT: it goes on, varve_quiesce ends it. Fails: the
// usual; VARVE_PARTIAL, VARVE_TIMED_OUT, VARVE_UNKNOWN no such op or taken, and how the op ended.
VARVE_API varve_status varve_wait_layer(varve_client* client, varve_op op, uint32_t layer,
                                        uint64_t timeout_ns, uint8_t* bitmap, size_t bitmap_bytes);

// Ends soon, with its completion (VARVE_CANCELLED unless it was done). No such op: nothing. Fails:
// the usual.
VARVE_API varve_status varve_cancel(varve_client* client, varve_op op);
// Cancels it and blocks until it has ended: from then on nothing touches its memory. Its completion
// is still to be taken. VARVE_TIMED_OUT: not yet; with at least fence_ns_max that does not happen
// while the client's thread gets a core. Fails: the usual; VARVE_TIMED_OUT.
VARVE_API varve_status varve_quiesce(varve_client* client, varve_op op, uint64_t timeout_ns);

// ---- purge, holds --------------------------------------------------------------------------

enum { VARVE_PURGE_BLOCKS = 1, VARVE_PURGE_LINEAGE = 2, VARVE_PURGE_DOMAIN = 3 };
typedef struct varve_purge_request {
  uint32_t struct_size;
  uint32_t kind;
  varve_format format;  // VARVE_PURGE_LINEAGE: whose lineage
  uint32_t count;
  const varve_id* ids;   // VARVE_PURGE_BLOCKS: 1 .. 2048
  uint64_t deadline_ns;  // default 90 s
  uint64_t tag;
} varve_purge_request;
// Ends blocks for good, every rank of them: from the completion on none is found, and none comes
// back after any restart. Leases do not protect from it. Goes on at the daemon when cancelled.
// Fails: the usual; VARVE_UNSUPPORTED a field of a later version; VARVE_OVERLOADED 65536
// completions wait for varve_poll. Ends: VARVE_NO_SPACE no generation or no room for records of
// purges is left; VARVE_UNAVAILABLE, VARVE_TIMED_OUT some of it may be unreachable already.
VARVE_API varve_status varve_purge_submit(varve_client* client, const varve_purge_request* request,
                                          varve_op* op);

enum { VARVE_HOLD_LEASE = 1, VARVE_HOLD_GRANT = 2, VARVE_HOLD_PULL = 3, VARVE_HOLD_FOLLOW = 4 };
typedef struct varve_hold {
  uint64_t session;
  uint64_t number;  // rises over all holds of a boot of the daemon
  uint64_t age_ns;
  uint64_t left_ns;  // 0: it is ending
  uint64_t bytes;
  uint32_t blocks;
  uint32_t kind;
  char name[56];  // of its client, as that gave it: escape before showing
} varve_hold;
// What the clients of one's own domain keep from being evicted, or reserved: for tools. A
// deadline_ns of 0 is the default, 5 s. Fails: the usual; VARVE_OVERLOADED 65536 completions wait
// for varve_poll. Ends: nothing more.
VARVE_API varve_status varve_holds_submit(varve_client* client, uint64_t deadline_ns, uint64_t tag,
                                          varve_op* op);

// ---- completions ---------------------------------------------------------------------------

enum {  // varve_completion.kind
  VARVE_DONE_MATCH = 1,
  VARVE_DONE_EXISTS = 2,
  VARVE_DONE_PULL = 3,
  VARVE_DONE_FOLLOW = 4,
  VARVE_DONE_PUSH = 5,
  VARVE_DONE_RENEW = 6,
  VARVE_DONE_PURGE = 7,
  VARVE_DONE_HOLDS = 8,
  // Of ops that go on:
  VARVE_DONE_LAYER = 32,    // `layer` of every block whose code is VARVE_OK is in place
  VARVE_DONE_RESERVED = 33  // codes: VARVE_OK wanted, VARVE_CANCELLED exists, VARVE_OVERLOADED not
                            // decided yet, else why not; `tags` of those granted since the last
};
typedef struct varve_completion {
  uint32_t struct_size;
  uint32_t kind;
  varve_op op;
  uint64_t tag;
  varve_status status;  // of the op; VARVE_OK with blocks that failed is possible
  uint32_t count;       // blocks: entries of codes, bits of bitmap
  uint32_t ok_count;    // of them VARVE_OK
  uint32_t layers_done;
  const uint8_t* codes;              // a varve_status each
  const uint8_t* bitmap;             // bit i of byte i / 8: codes[i] is VARVE_OK
  const char* reason;                // what `status` means here, for people; never null
  uint64_t bytes;                    // pulled, or of a purge: unreachable from now on
  uint64_t first_layer_ns, done_ns;  // since the submit; 0 = none came
  uint32_t layer;                    // VARVE_DONE_LAYER
  // Matches; lease_left_ns of renewals too.
  uint32_t hit_count;
  uint32_t flags;  // VARVE_ANSWER_*
  uint32_t slowest_tier;
  // VARVE_TIER_* of each of the hit_count blocks of a match, of each of the `count` ids of an
  // exists (VARVE_TIER_NONE: it is not there); null when not told.
  const uint8_t* tiers;
  varve_lease lease;
  uint64_t lease_left_ns;
  uint64_t first_layer_ns_estimate, last_layer_ns_estimate;
  // Purges.
  uint64_t purged_blocks;
  uint64_t erased_ns;  // until the last of it is overwritten: an estimate, ~0 = not known
  uint32_t generation;
  uint32_t tag_count;  // VARVE_DONE_RESERVED
  const varve_follow_tag* tags;
  const varve_hold* holds;  // VARVE_DONE_HOLDS
  size_t hold_count;
  void* memory;  // the library's: of everything that this points to
  // Pulls and follows: VARVE_FROM_*, where their blocks were when they were asked for; 0: nothing
  // came, or the daemon is older than this question.
  uint32_t tier_mask;
  uint32_t reserved;
} varve_completion;
enum {                     // 1 << VARVE_TIER_*, and
  VARVE_FROM_REBUILT = 1,  // some was lost or late, and made here from the rest of its stripe
  VARVE_FROM_DRAM = 2,
  VARVE_FROM_FLASH = 4,
  VARVE_FROM_OBJECT = 8
};

// Readable while varve_poll has something; the client's, closed with it. -1 and a reason in
// varve_last_error() when there is none. Fails: -1.
VARVE_API int varve_event_fd(varve_client* client);
// Takes up to `capacity` completions, oldest first, without waiting; *count may be 0. The first
// one's struct_size is the size of each: VARVE_INIT(&completions[0]) is enough. Give each back with
// varve_completion_clear. Fails: the usual.
VARVE_API varve_status varve_poll(varve_client* client, varve_completion* completions,
                                  size_t capacity, size_t* count);
// Blocks until `op` has ended and takes its completion; what VARVE_TELL_* brought of it and nobody
// took goes too. Fails: the usual; VARVE_TIMED_OUT not yet; VARVE_UNKNOWN no such op, or taken.
VARVE_API varve_status varve_wait(varve_client* client, varve_op op, uint64_t timeout_ns,
                                  varve_completion* completion);
// Gives back what the completion points to, and zeroes it but for struct_size. Null and a zeroed
// one are fine; needs no client and works after its end. Never fails.
VARVE_API void varve_completion_clear(varve_completion* completion);

#ifdef __cplusplus
}
#endif
