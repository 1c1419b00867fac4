// Looking: each fact is asked of the system as varved would ask for it.
#include "tools/kvctl/machine.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "common/reactor/reactor.h"
#include "common/time/time.h"
#include "server/host/host.h"

namespace varve::kvctl {

namespace {

constexpr uint32_t kClockReadings = 10000;
constexpr uint32_t kCapIpcLock = 14;  // its bit in CapEff
constexpr uint16_t kPorts[] = {7440, 7441, 7442};

std::string word_of_file(const std::string& path) {
  std::string content;
  if (!read_file(path, &content)) return {};
  return content.substr(0, content.find_first_of(" \n"));
}

// The word in brackets: "always [madvise] never".
std::string chosen_of_file(const std::string& path) {
  std::string content;
  if (!read_file(path, &content)) return {};
  const size_t begin = content.find('['), end = content.find(']');
  return begin < end && end != std::string::npos ? content.substr(begin + 1, end - begin - 1)
                                                 : std::string();
}

bool may_lock_memory(const std::string& root) {
  std::string status;
  if (!read_file(root + "/proc/self/status", &status)) return false;
  const size_t at = status.find("CapEff:");
  if (at == std::string::npos) return false;
  const uint64_t bits = std::strtoull(status.c_str() + at + std::strlen("CapEff:"), nullptr, 16);
  return (bits >> kCapIpcLock & 1) != 0;
}

rlimit limits_of(decltype(RLIMIT_NOFILE) resource) {
  static_assert(RLIM_INFINITY == kNoLimitBytes);
  rlimit limits = {RLIM_INFINITY, RLIM_INFINITY};
  (void)::getrlimit(resource, &limits);  // fails for a resource that is none
  return limits;
}

std::string uring_refusal() {
  const Result<IoBackendChoice> choice =
      make_io_backend(IoBackendPreference::kUring, IoBackendOptions());
  const Status status = choice ? choice->reason : choice.error();
  if (status.ok()) return {};
  const std::string text = status.what();
  // varved puts the remedy behind the semicolon; the errno belongs to the cause.
  const size_t remedy = text.find("; ");
  return text.substr(0, remedy) + errno_suffix(status.errno_value()) +
         (remedy == std::string::npos ? std::string() : text.substr(remedy));
}

bool clock_is_steady() {
  const SystemClock clock;
  Nanos before = clock.now_ns();
  for (uint32_t n = 0; n < kClockReadings; ++n) {
    const Nanos now = clock.now_ns();
    if (now < before) return false;
    before = now;
  }
  return true;
}

std::string filesystem_name(uint64_t type) {
  switch (type) {
    case 0xEF53:
      return "ext4";
    case 0x58465342:
      return "xfs";
    case 0x9123683E:
      return "btrfs";
    case 0x01021994:
      return "tmpfs";
    case 0x794C7630:
      return "overlayfs";
    case 0x6969:
      return "nfs";
    case 0x2FC12FC1:
      return "zfs";
    case 0x65735546:
      return "fuse";
    default: {
      char text[24];
      std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(type));
      return text;
    }
  }
}

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};

// One page, written and read past the page cache. Answers 0 or the errno of what failed.
int direct_errno(int fd) {
  void* memory = nullptr;
  if (::posix_memalign(&memory, kPageBytes, kPageBytes) != 0) return ENOMEM;
  const std::unique_ptr<void, FreeMemory> page(memory);
  std::memset(memory, 0x5a, kPageBytes);
  if (::fcntl(fd, F_SETFL, O_DIRECT) != 0) return errno;
  const ssize_t written = ::pwrite(fd, memory, kPageBytes, kPageBytes);
  if (written != kPageBytes)
    return written < 0 ? errno : ENOSPC;  // a part is all there was room for
  if (::fdatasync(fd) != 0) return errno;
  const ssize_t read = ::pread(fd, memory, kPageBytes, kPageBytes);
  if (read != kPageBytes) return read < 0 ? errno : EIO;
  return 0;
}

// Each errno is the fault of one thing: of O_DIRECT, of the room, or of the folder.
void note_refusal(int error, FolderFacts& facts) {
  if (error == 0) return;
  const bool full = error == ENOSPC || error == EDQUOT;
  const bool direct = facts.tried && (error == EINVAL || error == EOPNOTSUPP);
  (full     ? facts.full_refusal
   : direct ? facts.direct_refusal
            : facts.write_refusal) = std::strerror(error);
}

void try_to_write(FolderFacts& facts) {
  std::string name = facts.place + "/.kvctl-doctor.XXXXXX";
  const int fd = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) return note_refusal(errno, facts);
  facts.tried = true;
  ::unlink(name.c_str());  // at once: a signal leaves nothing behind
  note_refusal(direct_errno(fd), facts);
  ::close(fd);
}

// The folder that a path would be made in.
std::string parent_of(const std::string& path) {
  const size_t end = path.find_last_not_of('/');
  const size_t slash = end == std::string::npos ? 0 : path.rfind('/', end);
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

FolderFacts look_at_folder(const std::string& path, NodeHere node) {
  FolderFacts facts;
  facts.path = path;
  if (path.empty()) return facts;
  struct statfs info = {};
  for (const std::string& place : {path, parent_of(path)}) {
    facts.look_errno = ::statfs(place.c_str(), &info) == 0 ? 0 : errno;
    if (facts.look_errno == 0) facts.place = place;
    if (facts.look_errno != ENOENT) break;  // one that may not be looked at is there
  }
  if (facts.place.empty()) return facts;
  facts.filesystem = filesystem_name(static_cast<uint64_t>(info.f_type));
  facts.free_bytes = static_cast<uint64_t>(info.f_bavail) * static_cast<uint64_t>(info.f_bsize);
  facts.has_node = exists(path + "/targets.list");
  if (node == NodeHere::kNo) try_to_write(facts);  // where one runs, it writes
  return facts;
}

PortFacts look_at_port(uint16_t port) {
  PortFacts facts;
  facts.address = "127.0.0.1:" + std::to_string(port);
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    facts.refusal = std::strerror(errno);
    return facts;
  }
  const int on = 1;
  (void)::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    facts.refusal = std::strerror(errno);
  }
  ::close(fd);
  return facts;
}

std::vector<TokenFacts> look_at_tokens() {
  std::vector<TokenFacts> tokens;
  for (const char* variable : {"VARVE_TOKEN_FILE"}) {
    const char* path = std::getenv(variable);
    if (path == nullptr || *path == '\0') continue;
    std::string token;
    const Failure failure = load_token(variable, path, &token);
    tokens.push_back({variable, path, failure.text});
  }
  return tokens;
}

}  // namespace

MachineFacts look_at_machine(const std::string& root, const std::string& folder, NodeHere node) {
  MachineFacts facts;
  utsname name = {};
  if (::uname(&name) == 0) {
    facts.kernel = name.release;
    (void)std::sscanf(name.release, "%u.%u", &facts.kernel_major, &facts.kernel_minor);
  }
  facts.uring_refusal = uring_refusal();
  facts.memlock_bytes = limits_of(RLIMIT_MEMLOCK).rlim_cur;
  facts.may_lock = may_lock_memory(root);
  facts.descriptors_hard = limits_of(RLIMIT_NOFILE).rlim_max;
  facts.machine = read_machine(root);
  facts.clock_source =
      word_of_file(root + "/sys/devices/system/clocksource/clocksource0/current_clocksource");
  facts.clock_steady = clock_is_steady();
  facts.huge_pages = chosen_of_file(root + "/sys/kernel/mm/transparent_hugepage/enabled");
  facts.folder = look_at_folder(folder, node);
  for (const uint16_t port : kPorts)
    facts.ports.push_back(look_at_port(port));
  facts.tokens = look_at_tokens();
  return facts;
}

}  // namespace varve::kvctl
