// Looking: each fact is asked of the system as varved would ask for it.
#include "tools/kvctl/machine.h"

#include <fcntl.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "common/reactor/reactor.h"
#include "common/time/time.h"
#include "server/host/host.h"

namespace varve::kvctl {

namespace {

constexpr uint32_t kClockReadings = 10000;
constexpr uint32_t kCapIpcLock = 14;  // its bit in CapEff

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
  return told(status);
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

// Without "./", ".." and what ends in a slash, so that same_place() knows it: it looks at a name in
// a folder.
std::string plain(const std::string& path) {
  std::string text = std::filesystem::path(path).lexically_normal().string();
  while (text.size() > 1 && text.back() == '/')
    text.pop_back();
  return text;
}

// varved makes its data folder, and no other.
enum class Absent : uint8_t { kIsMade, kIsMissed };

FolderFacts look_at_folder(const std::string& path, NodeHere node, Absent absent) {
  FolderFacts facts;
  facts.path = path;
  struct statfs info = {};
  for (const std::string& place : {path, parent_of(path)}) {
    facts.look_errno = ::statfs(place.c_str(), &info) == 0 ? 0 : errno;
    if (facts.look_errno == 0) facts.place = place;
    // One that may not be looked at is there.
    if (facts.look_errno != ENOENT || absent == Absent::kIsMissed) break;
  }
  struct stat what = {};
  if (::stat(facts.place.c_str(), &what) == 0 && !S_ISDIR(what.st_mode)) {
    facts.look_errno = ENOTDIR;
    facts.place.clear();
  }
  if (facts.place.empty()) return facts;
  facts.filesystem = filesystem_name(static_cast<uint64_t>(info.f_type));
  facts.free_bytes = static_cast<uint64_t>(info.f_bavail) * static_cast<uint64_t>(info.f_bsize);
  if (node == NodeHere::kNo) try_to_write(facts);  // where one runs, it writes
  return facts;
}

// The data folder, and each other folder in which files lie that are targets, or are to be made.
std::vector<FolderFacts> look_at_folders(const ServerConfig& config, NodeHere node,
                                         const std::vector<LocalTarget>& targets) {
  std::vector<FolderFacts> folders;
  if (!config.data_dir.empty()) {
    folders.push_back(look_at_folder(config.data_dir, node, Absent::kIsMade));
  }
  for (const LocalTarget& target : targets) {
    const bool is_made = target.fate == TargetFate::kMade;
    struct stat info = {};
    const bool is_file = ::stat(target.path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
    if (!is_made && !is_file) continue;  // a drive, or what is missed says so itself
    const std::string place = parent_of(target.path);
    const auto is_it = [&](const FolderFacts& facts) {
      return same_place(plain(facts.path), plain(place));
    };
    auto folder = std::find_if(folders.begin(), folders.end(), is_it);
    if (folder == folders.end()) {
      folder = folders.insert(folders.end(), look_at_folder(place, node, Absent::kIsMissed));
      folder->check = "targets";
    }
    if (is_made) folder->first_bytes += target.bytes;
  }
  return folders;
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

// Empty where somebody could listen on it now.
std::string listen_refusal(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return "it is no address";  // config's problems() say more
  std::string host = address.substr(0, colon);
  if (host.size() > 1 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints, &found);
  if (error != 0) return ::gai_strerror(error);
  const std::unique_ptr<addrinfo, FreeAddresses> list(found);
  const int fd = ::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::strerror(errno);
  const int on = 1;
  (void)::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const bool bound = ::bind(fd, list->ai_addr, list->ai_addrlen) == 0;
  const std::string refusal = bound ? "" : std::strerror(errno);
  ::close(fd);
  return refusal;
}

std::vector<PortFacts> look_at_ports(const ServerConfig& config) {
  std::vector<PortFacts> ports;
  for (const std::string* address : {&config.listen, &config.control, &config.http}) {
    if (*address != kNoListener) ports.push_back({*address, listen_refusal(*address)});
  }
  return ports;
}

TokenFacts look_at_token(const std::string& option, const std::string& path) {
  std::string token;
  return {path, load_token(option, path, &token).text};
}

// The client's of this shell, and those of the settings.
std::vector<TokenFacts> look_at_tokens(const ServerConfig& config) {
  std::vector<TokenFacts> tokens;
  constexpr const char* kVariable = "VARVE_TOKEN_FILE";
  const char* own = std::getenv(kVariable);
  if (own != nullptr && *own != '\0') tokens.push_back(look_at_token(kVariable, own));
  if (!config.token_file.empty()) {
    tokens.push_back(look_at_token("--token-file", config.token_file));
  }
  if (!config.control_token_file.empty()) {
    tokens.push_back(look_at_token("--control-token-file", config.control_token_file));
  }
  return tokens;
}

}  // namespace

MachineFacts look_at_machine(const std::string& root, const ServerConfig& config, NodeHere node) {
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
  ServerConfig settled = config;
  settle(settled, facts.machine);
  // A node has its own open, and says itself how they are.
  const Looking looking = node == NodeHere::kNo ? Looking::kInside : Looking::kAtSizes;
  facts.targets = look_at_targets(root, settled, looking);
  facts.folders = look_at_folders(config, node, facts.targets.list);
  facts.ports = look_at_ports(config);
  facts.tokens = look_at_tokens(config);
  return facts;
}

}  // namespace varve::kvctl
