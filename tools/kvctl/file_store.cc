// Windows of blocks through one piece of memory: read a window, push it; pull a window, write it.
#include "tools/kvctl/file_store.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "tools/kvctl/text.h"

namespace varve::kvctl {

namespace {

constexpr uint32_t kWindowBlocks = 16;
constexpr WindowShape kShape = {uint64_t{kWindowBlocks} * kFileBlockBytes, sizeof(FileHead)};
constexpr char kMagic[9] = "VRVKVCTL";
constexpr uint32_t kHeadVersion = 1;
constexpr Nanos kConnectNanos = 5 * kSecond, kStepNanos = 50 * kMillisecond;
constexpr uint32_t kLeaseMs = 60000;

// What a code of the data plane means to who ran a command.
struct Meaning {
  Exit exit;
  const char* code;  // of gRPC
  const char* remedy;
};
Meaning meaning_of(Code code) {
  switch (code) {
    case Code::kInvalid:
    case Code::kUnsupported:
      return {Exit::kFailed, "FAILED_PRECONDITION", "use kvctl and varved of one version"};
    case Code::kUnauthorized:
      return {Exit::kDenied, "UNAUTHENTICATED",
              "give the domain's token by --client-token-file FILE"};
    case Code::kQuota:
      return {Exit::kFailed, "RESOURCE_EXHAUSTED", "this client has too much under way; try again"};
    case Code::kOverloaded:
      return {Exit::kFailed, "RESOURCE_EXHAUSTED", "try again later"};
    case Code::kUnavailable:
      return {Exit::kUnreached, "UNAVAILABLE",
              "see whether varved and its drives are there, and try again"};
    case Code::kTimedOut:
      return {Exit::kTimedOut, "DEADLINE_EXCEEDED", "try again, or give a longer --timeout"};
    case Code::kCancelled:
      return {Exit::kFailed, "CANCELLED", "try again"};
    case Code::kCorrupt:
      return {Exit::kFailed, "DATA_LOSS", "purge the file and put it again"};
    case Code::kNoSpace:
      return {Exit::kFailed, "RESOURCE_EXHAUSTED", "kvctl doctor says more"};
    case Code::kIo:
    case Code::kInternal:
    case Code::kOk:
      break;
  }
  return {Exit::kFailed, "INTERNAL", "see the node's log"};
}

}  // namespace

uint32_t file_blocks(uint64_t file_bytes) {
  VARVE_ASSERT(file_bytes <= kFileBytesMax, file_bytes);
  return static_cast<uint32_t>((sizeof(FileHead) + file_bytes + kFileBlockBytes - 1) /
                               kFileBlockBytes);
}

FileHead head_of(const Digest& key, uint64_t file_bytes) {
  FileHead head = {};
  std::memcpy(head.magic, kMagic, sizeof(head.magic));
  head.version = kHeadVersion;
  head.file_bytes = file_bytes;
  head.key = key;
  return head;
}

std::string bad_head(const FileHead& head, const Digest& key) {
  if (std::memcmp(head.magic, kMagic, sizeof(head.magic)) != 0) return "it is no file of kvctl";
  if (head.version != kHeadVersion) return "another kvctl put it; get it with that version";
  if (head.key != key) return "it is another file";
  if (head.file_bytes > kFileBytesMax) return "its length is beyond what kvctl puts";
  return {};
}

Digest block_hash(const Digest& key, uint32_t block) {
  return Sha256().update(key.bytes).update(bytes_view(block)).finish();
}

Format file_format() {
  Format format;
  const std::string_view name = "kvctl file 1";
  format.model = Sha256().update(std::as_bytes(std::span(name))).finish();
  format.lineage = "kvctl-file";
  format.type = KvType::kOpaque;
  format.layout = KvLayout::kOpaque;
  format.tokens_per_block = 1;
  format.ranks = {{LayerSpec{LayerKind::kOpaque, kFileBlockBytes}}};
  VARVE_ASSERT(format.validate().ok());
  return format;
}

Outcome store_failed(const std::string& doing, const Status& status) {
  const Meaning meaning = meaning_of(status.code());
  return {meaning.exit, meaning.code,
          doing + ": " + status.what() + " (" + code_name(status.code()) + "); " + meaning.remedy};
}

Outcome FileStore::connect() {
  memory_.resize(kShape.window_bytes);
  ClientOptions options;
  options.address = options_.address;
  options.token = options_.token;
  options.name = "kvctl";
  options.populate_scratch = false;
  Result<std::unique_ptr<Client>> opened = Client::open(options);
  if (!opened && opened.error().code() == Code::kInvalid) {
    return Outcome::usage("--address is " + printable(options_.address) + ": " +
                          opened.error().what() + "; give HOST:PORT");
  }
  if (!opened) return store_failed("no client of the data plane", opened.error());
  client_ = *std::move(opened);
  Status status = Status::timed_out("no answer");
  const Nanos limit_ns = std::min(options_.timeout_ns, kConnectNanos);
  for (Nanos waited = 0; waited < limit_ns && !status.ok(); waited += kStepNanos) {
    status = client_->wait_ready(kStepNanos);
    if (status.code() == Code::kUnauthorized) break;  // asking again helps nobody
  }
  if (!status.ok()) {
    const std::string said = client_->last_error_text();
    const std::string text = "no session with the data plane at " + options_.address + " (" +
                             printable(said.empty() ? status.what() : said) + "); ";
    const Meaning meaning = meaning_of(status.code());
    const bool refused = status.code() == Code::kUnauthorized ||
                         status.code() == Code::kUnsupported || status.code() == Code::kQuota ||
                         status.code() == Code::kOverloaded;
    if (refused) return {meaning.exit, meaning.code, text + meaning.remedy};
    return {Exit::kUnreached, "UNAVAILABLE",
            text + "start varved there, or give its --listen by --address HOST:PORT"};
  }
  const Result<FormatId> format = client_->format(file_format());
  if (!format) return store_failed("the format is refused", format.error());
  format_ = *format;
  const Result<RegionId> region = client_->register_memory(memory_.data(), memory_.size());
  if (!region) return store_failed("the memory is refused", region.error());
  layout_.layers = {{.region = *region, .offset = 0, .stride = kFileBlockBytes}};
  return Outcome::done();
}

Outcome FileStore::make_ids(const Digest& key, uint32_t blocks, std::vector<BaseId>* ids) {
  for (auto block = static_cast<uint32_t>(ids->size()); block < blocks; ++block) {
    const Result<BaseId> id = client_->base_id_of_hash(format_, block_hash(key, block).bytes);
    if (!id) return store_failed("no base id", id.error());
    ids->push_back(*id);
  }
  return Outcome::done();
}

Result<Event> FileStore::ended(const Result<OpId>& op) {
  if (!op) return op.error();
  // The op ends by its own deadline and the fence; this is only so that nothing waits for ever.
  Result<Event> event = client_->wait(*op, options_.timeout_ns + 5 * kSecond);
  if (event && !event->status.ok()) return event->status;
  return event;
}

// ---- put

Outcome FileStore::put(const std::string& file, Stored* stored) {
  SourceFile source(file, kShape);
  Outcome outcome = source.open(kFileBytesMax);
  if (!outcome.ok()) return outcome;
  stored->file_bytes = source.bytes();
  outcome = connect();
  if (!outcome.ok()) return outcome;
  outcome = source.hash(memory_, &stored->key);
  if (outcome.ok()) outcome = make_ids(stored->key, file_blocks(stored->file_bytes), &stored->ids);
  if (outcome.ok()) outcome = push_all(source, *stored);
  stored->blocks_there = client_->counters().existing_blocks;
  return outcome;
}

// Each window is checked before it is pushed: what once lay under a key and was not its content
// would stay there, because a block that is there is not pushed again.
Outcome FileStore::push_all(const SourceFile& source, const Stored& stored) {
  const auto blocks = static_cast<uint32_t>(stored.ids.size());
  const FileHead head = head_of(stored.key, stored.file_bytes);
  for (uint32_t first = 0; first < blocks; first += kWindowBlocks) {
    Outcome outcome = source.read(first / kWindowBlocks, memory_);
    if (!outcome.ok()) return outcome;
    if (first == 0) store(ByteSpan(memory_), 0, head);
    outcome = push_window(stored.ids, first, std::min(kWindowBlocks, blocks - first));
    if (!outcome.ok()) return outcome;
  }
  return Outcome::done();
}

Outcome FileStore::push_window(const std::vector<BaseId>& ids, uint32_t first, uint32_t count) {
  PushRequest request;
  request.format = format_;
  if (first > 0) request.parent = ids[first - 1];
  request.ids.assign(ids.begin() + first, ids.begin() + first + count);
  for (uint32_t n = 0; n < count; ++n)
    request.slots.push_back(n);
  request.layout = &layout_;
  request.ack = options_.ack;
  request.deadline_ns = options_.timeout_ns;
  const Result<OpId> op = client_->push(std::move(request));
  if (op) {
    const Status status = client_->push_layer(*op, ClientCore::kEveryLayer);
    if (!status.ok())
      return store_failed("block " + std::to_string(first) + " is not stored", status);
  }
  const Result<Event> event = ended(op);
  if (!event)
    return store_failed("block " + std::to_string(first) + " is not stored", event.error());
  for (uint32_t n = 0; n < count; ++n) {
    if (event->codes[n] == Code::kOk) continue;
    return store_failed("block " + std::to_string(first + n) + " is not stored",
                        Status(event->codes[n], "the node refused it"));
  }
  return Outcome::done();
}

// ---- get

Outcome FileStore::get(const Digest& key, NewFile& file, Stored* stored) {
  stored->key = key;
  Outcome outcome = connect();
  if (outcome.ok()) outcome = make_ids(key, 1, &stored->ids);
  if (outcome.ok()) outcome = pull_window(stored->ids, 0, 1);
  if (!outcome.ok()) return outcome;
  const auto head = load<FileHead>(ConstByteSpan(memory_));
  if (const std::string why = bad_head(head, key); !why.empty()) {
    return {Exit::kFailed, "DATA_LOSS", "what lies under that key is not its file: " + why};
  }
  stored->file_bytes = head.file_bytes;
  outcome = make_ids(key, file_blocks(head.file_bytes), &stored->ids);
  if (outcome.ok()) outcome = file.open();
  if (outcome.ok()) outcome = pull_all(file, *stored);
  return outcome.ok() ? file.finish() : outcome;
}

Outcome FileStore::pull_all(NewFile& file, const Stored& stored) {
  const auto blocks = static_cast<uint32_t>(stored.ids.size());
  Sha256 sha;
  for (uint32_t first = 0; first < blocks; first += kWindowBlocks) {
    Outcome outcome = pull_window(stored.ids, first, std::min(kWindowBlocks, blocks - first));
    if (!outcome.ok()) return outcome;
    const Piece piece = piece_of(kShape, first / kWindowBlocks, stored.file_bytes);
    const ConstByteSpan content = ConstByteSpan(memory_).subspan(piece.in_window, piece.bytes);
    outcome = file.write(piece.in_file, content);
    if (!outcome.ok()) return outcome;
    sha.update(content);
  }
  if (sha.finish() == stored.key) return Outcome::done();
  return {Exit::kFailed, "DATA_LOSS",
          "the content that came is not the one of the key; it was put wrong: purge it and put the "
          "file again"};
}

// While the node recovers a miss may be found later, so it is asked again until --timeout.
Outcome FileStore::find_window(const std::vector<BaseId>& ids, uint64_t* lease) {
  uint32_t found = 0;
  for (Nanos waited = 0;; waited += kStepNanos) {
    MatchRequest request;
    request.format = format_;
    request.ids = ids;
    request.lease_ms = kLeaseMs;
    request.deadline_ns = options_.timeout_ns;
    const Result<Event> event = ended(client_->match(std::move(request)));
    if (!event) return store_failed("the node could not look for it", event.error());
    *lease = event->lease;
    found = event->n_blocks;
    if (found == ids.size() || !event->recovering || waited >= options_.timeout_ns) break;
    if (*lease != 0) client_->release(*lease);
    std::this_thread::sleep_for(std::chrono::nanoseconds(kStepNanos));
  }
  if (found == ids.size()) return Outcome::done();
  return {
      Exit::kFailed, "NOT_FOUND",
      "it is not there, or not all of it any more: it was never put in this domain, or evicted, "
      "or purged; put it again"};
}

Outcome FileStore::pull_window(const std::vector<BaseId>& ids, uint32_t first, uint32_t count) {
  PullRequest request;
  request.format = format_;
  request.ids.assign(ids.begin() + first, ids.begin() + first + count);
  Outcome outcome = find_window(request.ids, &request.lease);
  if (!outcome.ok()) return outcome;
  for (uint32_t n = 0; n < count; ++n)
    request.slots.push_back(n);
  request.layout = &layout_;
  request.deadline_ns = options_.timeout_ns;
  const uint64_t lease = request.lease;
  const Result<Event> event = ended(client_->pull(std::move(request)));
  if (lease != 0) client_->release(lease);
  if (!event)
    return store_failed("block " + std::to_string(first) + " did not come", event.error());
  for (uint32_t n = 0; n < count; ++n) {
    if (event->codes[n] == Code::kOk) continue;
    return store_failed("block " + std::to_string(first + n) + " did not come",
                        Status(event->codes[n], "the node could not give it"));
  }
  return Outcome::done();
}

}  // namespace varve::kvctl
