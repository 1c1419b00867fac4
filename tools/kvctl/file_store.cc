// Windows of blocks through one piece of memory: read a window, push it; pull a window, write it.
#include "tools/kvctl/file_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "tools/kvctl/text.h"

namespace varve::kvctl {

namespace {

constexpr uint32_t kWindowBlocks = 16;
constexpr char kMagic[9] = "VRVKVCTL";
constexpr uint32_t kHeadVersion = 1;
constexpr Nanos kConnectNanos = 5 * kSecond, kStepNanos = 50 * kMillisecond;
constexpr uint32_t kLeaseMs = 60000;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

Outcome file_failed(const std::string& file, int error, const char* remedy) {
  return Outcome::failed(printable(file) + ": " + std::strerror(error) + "; " + remedy);
}

// False with errno, 0 where the file ends before.
bool read_at(int fd, uint64_t offset, ByteSpan out) {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = 0;
    if (n <= 0) return false;
    out = out.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return true;
}

bool write_at(int fd, uint64_t offset, ConstByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return true;
}

// Of the content in a block: where it lies in the block, and in the file.
struct Piece {
  uint64_t in_block = 0, in_file = 0, bytes = 0;
};
Piece piece_of(uint32_t block, uint64_t file_bytes) {
  Piece piece;
  piece.in_block = block == 0 ? sizeof(FileHead) : 0;
  piece.in_file = block == 0 ? 0 : uint64_t{block} * kFileBlockBytes - sizeof(FileHead);
  VARVE_ASSERT(piece.in_file <= file_bytes);
  piece.bytes = std::min(kFileBlockBytes - piece.in_block, file_bytes - piece.in_file);
  return piece;
}

Outcome changed(const std::string& what) {
  return Outcome::failed(what +
                         " changed while it was read; put it again when nobody writes to it");
}

Outcome open_file(const std::string& file, int* fd, uint64_t* bytes) {
  struct stat info = {};
  *fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe must not be waited for
  if (*fd < 0 || ::fstat(*fd, &info) != 0) {
    return file_failed(file, errno, "check path and permissions");
  }
  if (!S_ISREG(info.st_mode)) return Outcome::usage(printable(file) + " is no regular file");
  *bytes = static_cast<uint64_t>(info.st_size);
  if (*bytes <= kFileBytesMax) return Outcome::done();
  return Outcome::usage(printable(file) + " has " + size_text(*bytes) +
                        "; at most 16 GiB are taken: this is for trying a node out");
}

// Through `buffer`, so that a large file costs no more memory than a small one.
Outcome hash_file(int fd, const std::string& file, uint64_t bytes, ByteSpan buffer, Digest* key) {
  Sha256 sha;
  for (uint64_t at = 0; at < bytes; at += buffer.size()) {
    const ByteSpan part = buffer.first(std::min<uint64_t>(buffer.size(), bytes - at));
    if (!read_at(fd, at, part)) {
      return errno == 0 ? changed(printable(file)) : file_failed(file, errno, "check the drive");
    }
    sha.update(part);
  }
  *key = sha.finish();
  return Outcome::done();
}

// A file under another name beside it, until it is whole.
struct Unfinished {
  explicit Unfinished(const std::string& file)
      : name(file + ".XXXXXX"), fd(::mkostemp(name.data(), O_CLOEXEC)) {}
  ~Unfinished() {
    if (!finished && fd.get() >= 0) ::unlink(name.c_str());
  }
  int finish(const std::string& file) {
    const mode_t mask = ::umask(0);
    ::umask(mask);
    if (::fchmod(fd.get(), 0666 & ~mask) != 0 || ::fsync(fd.get()) != 0 ||
        ::rename(name.c_str(), file.c_str()) != 0) {
      return errno;
    }
    finished = true;
    return 0;
  }
  std::string name;
  Descriptor fd;
  bool finished = false;
};

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

Outcome FileStore::failed(const std::string& doing, const Status& status) const {
  Outcome outcome{Exit::kFailed, "UNAVAILABLE",
                  doing + ": " + status.what() + " (" + code_name(status.code()) + ")"};
  if (status.code() == Code::kTimedOut) {
    outcome.exit = Exit::kTimedOut;
    outcome.code = "DEADLINE_EXCEEDED";
    outcome.text += "; try again, or give a longer --timeout";
  } else if (status.code() == Code::kNoSpace) {
    outcome.code = "RESOURCE_EXHAUSTED";
    outcome.text += "; kvctl doctor says more";
  }
  return outcome;
}

Outcome FileStore::connect() {
  memory_.resize(uint64_t{kWindowBlocks} * kFileBlockBytes);
  ClientOptions options;
  options.address = options_.address;
  options.token = options_.token;
  options.name = "kvctl";
  options.populate_scratch = false;
  Result<std::unique_ptr<Client>> opened = Client::open(options);
  if (!opened) {
    return {Exit::kUnreached, "UNAVAILABLE",
            "--address " + options_.address + ": " + opened.error().what()};
  }
  client_ = *std::move(opened);
  Status status = Status::timed_out("no answer");
  const Nanos limit_ns = std::min(options_.timeout_ns, kConnectNanos);
  for (Nanos waited = 0; waited < limit_ns && !status.ok(); waited += kStepNanos) {
    status = client_->wait_ready(kStepNanos);
    if (status.code() == Code::kUnauthorized) break;  // asking again helps nobody
  }
  if (!status.ok()) {
    const bool denied = status.code() == Code::kUnauthorized;
    const std::string said = client_->last_error_text();
    return {denied ? Exit::kDenied : Exit::kUnreached, denied ? "UNAUTHENTICATED" : "UNAVAILABLE",
            "no session with the data plane at " + options_.address + " (" +
                printable(said.empty() ? status.what() : said) + "); " +
                (denied ? "give the domain's token by --client-token-file FILE"
                        : "start varved there, or give its --listen by --address HOST:PORT")};
  }
  const Result<FormatId> format = client_->format(file_format());
  if (!format) return failed("the format is refused", format.error());
  format_ = *format;
  const Result<RegionId> region = client_->register_memory(memory_.data(), memory_.size());
  if (!region) return failed("the memory is refused", region.error());
  layout_.layers = {{.region = *region, .offset = 0, .stride = kFileBlockBytes}};
  return Outcome::done();
}

Outcome FileStore::make_ids(const Digest& key, uint32_t blocks, std::vector<BaseId>* ids) {
  for (auto block = static_cast<uint32_t>(ids->size()); block < blocks; ++block) {
    const Result<BaseId> id = client_->base_id_of_hash(format_, block_hash(key, block).bytes);
    if (!id) return failed("no base id", id.error());
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
  int opened = -1;
  Outcome outcome = open_file(file, &opened, &stored->file_bytes);
  const Descriptor fd(opened);
  if (!outcome.ok()) return outcome;
  outcome = connect();
  if (!outcome.ok()) return outcome;
  outcome = hash_file(fd.get(), file, stored->file_bytes, memory_, &stored->key);
  if (outcome.ok()) outcome = make_ids(stored->key, file_blocks(stored->file_bytes), &stored->ids);
  if (outcome.ok()) outcome = push_all(fd.get(), stored->file_bytes, stored);
  stored->blocks_there = client_->counters().existing_blocks;
  return outcome;
}

Outcome FileStore::push_all(int fd, uint64_t file_bytes, Stored* stored) {
  const auto blocks = static_cast<uint32_t>(stored->ids.size());
  const FileHead head = head_of(stored->key, file_bytes);
  Sha256 sha;
  bool whole = true;
  for (uint32_t first = 0; first < blocks && whole; first += kWindowBlocks) {
    const uint32_t count = std::min(kWindowBlocks, blocks - first);
    std::fill(memory_.begin(), memory_.end(), std::byte{0});
    for (uint32_t n = 0; n < count && whole; ++n) {
      if (first + n == 0) store(ByteSpan(memory_), 0, head);
      const Piece piece = piece_of(first + n, file_bytes);
      const ByteSpan content(slot(n) + piece.in_block, piece.bytes);
      whole = read_at(fd, piece.in_file, content);
      sha.update(content);
    }
    if (!whole) break;
    Outcome outcome = push_window(stored->ids, first, count);
    if (!outcome.ok()) return outcome;
  }
  if (whole && sha.finish() == stored->key) return Outcome::done();
  // Under this key lies now what is not its content: nobody could ever put the right one there.
  const Outcome purged = purge(stored->ids);
  Outcome outcome = changed("the file");
  if (!purged.ok()) outcome.text += "; what was stored of it is still there: " + purged.text;
  return outcome;
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
    if (!status.ok()) return failed("block " + std::to_string(first) + " is not stored", status);
  }
  const Result<Event> event = ended(op);
  if (!event) return failed("block " + std::to_string(first) + " is not stored", event.error());
  for (uint32_t n = 0; n < count; ++n) {
    if (event->codes[n] == Code::kOk) continue;
    return failed("block " + std::to_string(first + n) + " is not stored",
                  Status(event->codes[n], "the node refused it"));
  }
  return Outcome::done();
}

Outcome FileStore::purge(const std::vector<BaseId>& ids) {
  for (size_t first = 0; first < ids.size(); first += wire::kIdsMax) {
    PurgeRequest request;
    const size_t end = std::min<size_t>(ids.size(), first + wire::kIdsMax);
    request.ids.assign(ids.begin() + static_cast<ptrdiff_t>(first),
                       ids.begin() + static_cast<ptrdiff_t>(end));
    const Result<Event> event = ended(client_->purge(std::move(request)));
    if (!event) return failed("not purged", event.error());
  }
  return Outcome::done();
}

// ---- get

Outcome FileStore::get(const Digest& key, const std::string& file, Stored* stored) {
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
  if (!outcome.ok()) return outcome;
  Unfinished unfinished(file);
  if (unfinished.fd.get() < 0) {
    return file_failed(unfinished.name, errno, "give a file in a folder that may be written");
  }
  outcome = pull_all(unfinished.fd.get(), stored);
  if (!outcome.ok()) return outcome;
  const int error = unfinished.finish(file);
  return error == 0 ? Outcome::done() : file_failed(file, error, "check the folder and its space");
}

Outcome FileStore::pull_all(int fd, Stored* stored) {
  const auto blocks = static_cast<uint32_t>(stored->ids.size());
  Sha256 sha;
  for (uint32_t first = 0; first < blocks; first += kWindowBlocks) {
    const uint32_t count = std::min(kWindowBlocks, blocks - first);
    Outcome outcome = pull_window(stored->ids, first, count);
    if (!outcome.ok()) return outcome;
    for (uint32_t n = 0; n < count; ++n) {
      const Piece piece = piece_of(first + n, stored->file_bytes);
      const ConstByteSpan content(slot(n) + piece.in_block, piece.bytes);
      if (!write_at(fd, piece.in_file, content)) {
        return file_failed("the new file", errno, "free space, or give another folder");
      }
      sha.update(content);
    }
  }
  if (sha.finish() == stored->key) return Outcome::done();
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
    if (!event) return failed("the node could not look for it", event.error());
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
  if (!event) return failed("block " + std::to_string(first) + " did not come", event.error());
  for (uint32_t n = 0; n < count; ++n) {
    if (event->codes[n] == Code::kOk) continue;
    return failed("block " + std::to_string(first + n) + " did not come",
                  Status(event->codes[n], "the node could not give it"));
  }
  return Outcome::done();
}

}  // namespace varve::kvctl
