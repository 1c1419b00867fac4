// The data folder: its lock, the node's identity, the token, the list of the targets it had.
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "server/host/host.h"

namespace varve {

namespace {

constexpr const char* kRecordsName = "/targets.list";
constexpr const char *kIdName = "/node.id", *kSaltName = "/domain.salt";
// 10 says which id of a domain was seen on drives; 9 which was the last; 8 has lines of targets
// that the operator drains; 7 says when what a target missed was over, and which start served last;
// 6 has lines of what targets saw of purges, 5 of drained ones, 4 of generations.
constexpr uint32_t kRecordsVersion = 10;
constexpr uint32_t kRecordsMax = 32;
constexpr uint32_t kSlicesRecordedMax = 64;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r'))
    text.remove_suffix(1);
  return text;
}

std::string parent_of(std::string path) {
  while (path.size() > 1 && path.back() == '/')
    path.pop_back();
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Failure make_folder(const std::string& folder) {
  const std::string parent = parent_of(folder);
  if (::mkdir(folder.c_str(), 0700) != 0) {
    const int32_t error = errno;
    if (error == EEXIST) return {};
    if (error == ENOENT) {
      return environment("--data " + folder + ": its parent " + parent +
                         " does not exist; make it (mkdir -p) or check that it is mounted");
    }
    return environment("--data " + folder + errno_suffix(error) + "; check the folder " + parent);
  }
  const int fd = ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool flushed = fd >= 0 && ::fsync(fd) == 0;
  const int32_t error = errno;
  if (fd >= 0) ::close(fd);
  if (flushed) return {};
  return environment("--data " + folder + ": its parent cannot be flushed" + errno_suffix(error));
}

// The bytes in hex of a small file; `*found` is false where there is none.
Failure load_hex(const std::string& path, ByteSpan out, bool* found) {
  std::string content;
  *found = read_file(path, &content);
  if (!*found && errno == ENOENT) return {};
  if (!*found) return environment(path + errno_suffix(errno) + "; restore it or its permissions");
  if (from_hex(trimmed(content), out)) return {};
  return environment(path + " is damaged: it must hold " + std::to_string(out.size() * 2) +
                     " hex digits; restore it from a copy. Without the original, what the targets "
                     "hold cannot be served.");
}

Failure create_hex(const std::string& path, ByteSpan out, Entropy& entropy) {
  entropy.fill(out);
  const int32_t error = replace_file(path, to_hex(out) + "\n", Durability::kPowerCut);
  if (error == 0) return {};
  return environment(path + errno_suffix(error) + "; free space or check the folder");
}

// "varve targets 3 GENERATION SLICES SCHEME"; version 1 ended before the numbers, version 2 before
// the scheme, which was 1+0.
Status parse_records_head(const std::string& line, TargetList* list) {
  unsigned version = 0;
  unsigned long long generation = 0, slices = 0;
  char scheme[8] = "1+0";
  int used = 0;
  const int fields = std::sscanf(line.c_str(), "varve targets %4u%n %10llu %4llu%n %7s%n", &version,
                                 &used, &generation, &slices, &used, scheme, &used);
  const bool whole = used == static_cast<int>(line.size());
  if (fields < 1) return Status::corrupt("its first line is not ours");
  if (version > kRecordsVersion) return Status::unsupported("a newer version of Varve wrote it");
  if (version == 1 && fields == 1 && whole) return Status();
  if (version < 2 || fields != static_cast<int>(std::min(version, 3u)) + 1 || !whole) {
    return Status::corrupt("its first line is not ours");
  }
  // One more must be left for the next start.
  if (generation == 0 || generation >= ~0u || slices == 0 || slices > kSlicesRecordedMax) {
    return Status::corrupt("its generation or slices cannot be");
  }
  VARVE_TRY(list->scheme, Scheme::parse(scheme));
  list->boot_generation = static_cast<uint32_t>(generation);
  list->slices = static_cast<uint32_t>(slices);
  return Status();
}

// "INDEX UUID BYTES PATH"
bool parse_record(const std::string& line, TargetRecord* record) {
  unsigned index = 0;
  unsigned long long bytes = 0;
  char uuid[33] = {};
  int used = 0;
  if (std::sscanf(line.c_str(), "%2u %32s %20llu %n", &index, uuid, &bytes, &used) != 3) {
    return false;
  }
  if (index >= kRecordsMax || used <= 0 || !from_hex(uuid, record->uuid)) return false;
  record->index = index;
  record->capacity_bytes = bytes;
  record->path = line.substr(static_cast<size_t>(used));
  return true;
}

constexpr const char* kSaltWord = "salt ";
constexpr const char* kServedWord = "served ";
constexpr const char* kDomainsWord = "domains ";
constexpr const char* kPurgedWord = "purged ";
constexpr size_t kPurgedMax = 64;

bool parse_salt(const std::string& line, uint64_t* mark) {
  unsigned long long value = 0;
  int used = 0;
  const bool one = std::sscanf(line.c_str(), "salt %16llx%n", &value, &used) == 1;
  if (!one || static_cast<size_t>(used) != line.size() || *mark != 0) return false;
  return (*mark = value) != 0;
}

bool parse_served(const std::string& line, TargetList* list) {
  unsigned long long value = 0;
  int used = 0;
  const bool one = std::sscanf(line.c_str(), "served %10llu%n", &value, &used) == 1;
  if (!one || static_cast<size_t>(used) != line.size() || list->served != 0) return false;
  if (value == 0 || value > list->boot_generation) return false;
  list->served = static_cast<uint32_t>(value);
  return true;
}

// "domains LAST CHANGES SEEN"; version 9 ended before SEEN.
bool parse_domains(const std::string& line, TargetList* list) {
  unsigned long long id = 0, changes = 0, seen = 0;
  int used = 0, more = 0;
  const int fields = std::sscanf(line.c_str(), "domains %10llu %10llu%n %10llu%n", &id, &changes,
                                 &used, &seen, &more);
  used = fields > 2 ? more : used;
  if (fields < 2 || static_cast<size_t>(used) != line.size() || list->domain_id_last != 0) {
    return false;
  }
  if (id == 0 || id > ~0u || changes > ~0u || seen > ~0u) return false;
  list->domain_id_last = static_cast<uint32_t>(id);
  list->domain_changes = static_cast<uint32_t>(changes);
  list->domain_id_seen = static_cast<uint32_t>(seen);
  return true;
}

bool parse_purged(const std::string& line, PurgedRecord* record) {
  unsigned long long domain = 0, domain_generation = 0, lineage = 0, lineage_generation = 0;
  int used = 0;
  const int fields = std::sscanf(line.c_str(), "purged %10llu %10llu %16llx %10llu%n", &domain,
                                 &domain_generation, &lineage, &lineage_generation, &used);
  if (fields != 4 || static_cast<size_t>(used) != line.size()) return false;
  if (domain > ~0u || domain_generation > ~0u || lineage_generation > ~0u) return false;
  *record = {static_cast<uint32_t>(domain), static_cast<uint32_t>(domain_generation), lineage,
             static_cast<uint32_t>(lineage_generation)};
  return true;
}

std::string purged_text(const PurgedRecord& record) {
  char line[96];
  std::snprintf(line, sizeof(line), "%s%u %u %016llx %u\n", kPurgedWord, record.domain,
                record.domain_generation, static_cast<unsigned long long>(record.lineage),
                record.lineage_generation);
  return line;
}

// A line that is about the node as a whole; false: it is about a target.
Result<bool> parse_of_node(const std::string& line, TargetList* list) {
  if (line.starts_with(kSaltWord)) {
    if (!parse_salt(line, &list->salt_mark)) return Status::corrupt("a line is no mark of a salt");
  } else if (line.starts_with(kServedWord)) {
    if (!parse_served(line, list)) return Status::corrupt("a line is no start that served");
  } else if (line.starts_with(kDomainsWord)) {
    if (!parse_domains(line, list)) return Status::corrupt("a line is no id of a domain");
  } else if (line.starts_with(kPurgedWord)) {
    if (list->purged.size() == kPurgedMax) return Status::corrupt("too many generations");
    if (!parse_purged(line, &list->purged.emplace_back())) {
      return Status::corrupt("a line is no generation");
    }
  } else {
    return false;
  }
  return true;
}

// "drained INDEX", "draining INDEX", "from INDEX START" and "missed INDEX FIRST END" (END 0: not
// over; left out in version 6), of a target that stands before it.
constexpr std::string_view kDrainedWord = "drained ", kDrainingWord = "draining ";
constexpr std::string_view kFromWord = "from ", kMissedWord = "missed ";
constexpr size_t kMissedLinesMax = 8;  // of one target

bool is_word(std::string_view line) {
  return line.starts_with(kDrainedWord) || line.starts_with(kDrainingWord) ||
         line.starts_with(kFromWord) || line.starts_with(kMissedWord);
}

bool add_missed(const MissedStarts& missed, TargetRecord& record) {
  const bool rises = record.missed.empty() ||
                     (record.missed.back().end != 0 && record.missed.back().end < missed.first);
  const bool is_some = missed.end == 0 || missed.first < missed.end;
  if (!rises || !is_some || record.missed.size() == kMissedLinesMax) return false;
  record.missed.push_back(missed);
  return true;
}

bool parse_word(const std::string& line, std::vector<TargetRecord>& records) {
  VARVE_ASSERT(is_word(line));
  const std::string rest = line.substr(line.find(' ') + 1);
  unsigned index = 0;
  unsigned long long first = 0, end = 0;
  int used = 0, more = 0;
  const int fields = std::sscanf(rest.c_str(), "%2u%n %10llu%n %10llu%n", &index, &used, &first,
                                 &more, &end, &more);
  used = fields > 1 ? more : used;
  if (fields < 1 || static_cast<size_t>(used) != rest.size()) return false;
  const auto record = std::find_if(records.begin(), records.end(),
                                   [index](const TargetRecord& r) { return r.index == index; });
  if (record == records.end() || first >= ~0u || end >= ~0u) return false;
  if (line.starts_with(kDrainedWord)) {
    return fields == 1 && !std::exchange(record->drained, true);
  }
  if (line.starts_with(kDrainingWord)) {
    return fields == 1 && !std::exchange(record->draining, true);
  }
  if (fields < 2 || first == 0) return false;
  if (line.starts_with(kFromWord)) {
    return fields == 2 && std::exchange(record->from, static_cast<uint32_t>(first)) == 0;
  }
  return add_missed({static_cast<uint32_t>(first), static_cast<uint32_t>(end)}, *record);
}

// `*has_salt` where a first start was cut off between the two files.
Failure read_identity(const std::string& folder, Identity* identity, bool* has_salt) {
  VARVE_ASSERT(identity != nullptr && has_salt != nullptr);
  const std::string id_path = folder + kIdName, salt_path = folder + kSaltName;
  bool has_id = false;
  Failure failure = load_hex(id_path, identity->node_uuid, &has_id);
  if (failure.ok()) failure = load_hex(salt_path, identity->domain_salt.bytes, has_salt);
  if (!failure.ok()) return failure;
  if (has_id && !*has_salt) {
    // The salt is made before node.id, so this is a loss and never a first start (H1).
    return environment(
        salt_path +
        " is missing, but this node had one: with a new salt nothing of what its targets hold "
        "would ever be found. Restore the file from a copy; to give the blocks up, start with "
        "an empty --data and blank targets");
  }
  if (!has_id && exists(folder + kRecordsName)) {
    // The list is made after node.id, so this is a loss too; one that was cut off had no targets.
    return environment(
        id_path +
        " is missing, but this node had targets: they are refused to a node of another name. "
        "Restore the file from a copy; to give the blocks up, start with an empty --data and blank "
        "targets");
  }
  identity->is_new = !has_id;
  return {};
}

}  // namespace

Failure lock_folder(const std::string& folder) {
  if (Failure failure = make_folder(folder); !failure.ok()) return failure;
  const std::string path = folder + "/lock";
  // Its content is replaced, so it may be no link to somebody's file, nor a pipe to wait for.
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
  struct stat info = {};
  const bool looked = fd >= 0 && ::fstat(fd, &info) == 0;
  // A link, a folder, a socket: open says so itself.
  const bool refused = fd < 0 && (errno == ELOOP || errno == EISDIR || errno == ENXIO);
  if (refused || (looked && !S_ISREG(info.st_mode))) {
    if (fd >= 0) ::close(fd);
    return environment(path + " is no regular file; remove it");
  }
  if (fd < 0) return environment(path + errno_suffix(errno) + "; check the folder's permissions");
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    std::string content;
    const bool read = read_file(path, &content);
    ::close(fd);
    const std::string_view pid = read ? trimmed(content) : std::string_view();
    return environment("--data " + folder + " is in use by another varved (pid " +
                       (pid.empty() ? "unknown" : std::string(pid)) +
                       "); stop it or give another folder");
  }
  const std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, pid.data(), pid.size(), 0) < 0) {
    return environment(path + errno_suffix(errno) + "; free space or check the folder");
  }
  return {};  // the descriptor stays open on purpose
}

Failure look_identity(const std::string& folder, Identity* identity) {
  bool has_salt = false;
  return read_identity(folder, identity, &has_salt);
}

Failure load_identity(const std::string& folder, Entropy& entropy, Identity* identity) {
  bool has_salt = false;
  Failure failure = read_identity(folder, identity, &has_salt);
  if (!failure.ok()) return failure;
  // The salt first (H1).
  if (!has_salt) {
    failure = create_hex(folder + kSaltName, identity->domain_salt.bytes, entropy);
  }
  if (failure.ok() && identity->is_new) {
    failure = create_hex(folder + kIdName, identity->node_uuid, entropy);
  }
  return failure;
}

uint64_t salt_mark(const Digest& salt) {
  constexpr char kTag[] = "varve salt mark";
  const Digest digest = Sha256()
                            .update({reinterpret_cast<const std::byte*>(kTag), sizeof(kTag)})
                            .update(salt.bytes)
                            .finish();
  uint64_t mark = 0;
  std::memcpy(&mark, digest.bytes.data(), sizeof(mark));
  return mark | 1;
}

Failure check_salt(const std::string& folder, const TargetList& list, const Digest& salt) {
  if (list.salt_mark == 0 || list.salt_mark == salt_mark(salt)) return {};
  return environment(
      folder +
      "/domain.salt is not the one that this node had: nothing of what its targets hold would ever "
      "be found. Restore the file from a copy; to give the blocks up, start with an empty --data "
      "and blank targets");
}

Failure load_token(const std::string& option, const std::string& token_file, std::string* token) {
  VARVE_ASSERT(token != nullptr && !option.empty());
  if (token_file.empty()) return {};
  std::string content;
  bool found = false;
  if (const Failure failure = read_secrets(token_file, &content, &found); !failure.ok()) {
    return environment(option + " " + failure.text);
  }
  if (!found) {
    return environment(option + " " + token_file + errno_suffix(ENOENT) +
                       "; check path and permissions");
  }
  const Result<std::string> parsed = token_of_file(content);
  if (!parsed) return environment(option + " " + token_file + ": " + parsed.error().what());
  *token = *parsed;
  return {};
}

std::string records_text(const TargetList& list) {
  VARVE_ASSERT(list.boot_generation > 0 && list.slices > 0 && list.slices <= kSlicesRecordedMax);
  std::string text = "varve targets " + std::to_string(kRecordsVersion) + " " +
                     std::to_string(list.boot_generation) + " " + std::to_string(list.slices) +
                     " " + list.scheme.text() + "\n";
  for (const TargetRecord& record : list.records) {
    VARVE_ASSERT(record.index < kRecordsMax, record.index);
    text += std::to_string(record.index) + " " + to_hex(record.uuid) + " " +
            std::to_string(record.capacity_bytes) + " " + record.path + "\n";
  }
  for (const TargetRecord& record : list.records) {
    const std::string index = std::to_string(record.index);
    if (record.drained) text += std::string(kDrainedWord) + index + "\n";
    if (record.draining) text += std::string(kDrainingWord) + index + "\n";
    if (record.from != 0) {
      text += std::string(kFromWord) + index + " " + std::to_string(record.from) + "\n";
    }
    for (const MissedStarts& missed : record.missed) {
      text += std::string(kMissedWord) + index + " " + std::to_string(missed.first) + " " +
              std::to_string(missed.end) + "\n";
    }
  }
  for (const PurgedRecord& record : list.purged)
    text += purged_text(record);
  if (list.served != 0) text += kServedWord + std::to_string(list.served) + "\n";
  if (list.domain_id_last != 0) {
    text += kDomainsWord + std::to_string(list.domain_id_last) + " " +
            std::to_string(list.domain_changes) + " " + std::to_string(list.domain_id_seen) + "\n";
  }
  if (list.salt_mark != 0) {
    char line[32];
    std::snprintf(line, sizeof(line), "%s%016llx\n", kSaltWord,
                  static_cast<unsigned long long>(list.salt_mark));
    text += line;
  }
  return text;
}

Result<TargetList> parse_records(std::string_view text) {
  TargetList list;
  const size_t head_end = text.find('\n');
  if (head_end == std::string_view::npos) return Status::corrupt("its first line is not ours");
  VARVE_RETURN_IF_ERROR(parse_records_head(std::string(text.substr(0, head_end)), &list));
  text.remove_prefix(head_end + 1);
  std::vector<TargetRecord>& records = list.records;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return Status::corrupt("its last line is cut off");
    const std::string line(text.substr(0, end));
    text.remove_prefix(end + 1);
    VARVE_TRY(const bool of_node, parse_of_node(line, &list));
    if (of_node) continue;
    if (is_word(line)) {
      if (parse_word(line, records)) continue;
      return Status::corrupt("a line on a target is not one, or its target is not there");
    }
    TargetRecord record;
    if (!parse_record(line, &record)) return Status::corrupt("a line is no target");
    for (const TargetRecord& other : records) {
      if (other.index == record.index) return Status::corrupt("a target stands in it twice");
    }
    records.push_back(std::move(record));
  }
  return list;
}

Failure load_records(const std::string& folder, TargetList* list) {
  VARVE_ASSERT(list != nullptr && list->records.empty());
  const std::string path = folder + kRecordsName;
  std::string content;
  const bool found = read_file(path, &content);
  if (!found && errno == ENOENT) return {};
  if (!found) return environment(path + errno_suffix(errno) + "; check its permissions");
  Result<TargetList> parsed = parse_records(content);
  if (!parsed && parsed.error().code() == Code::kUnsupported) {
    return environment(path + " is refused: " + parsed.error().what() +
                       "; start that version, or a data folder of this one");
  }
  if (!parsed) {
    return environment(
        path + " is damaged (" + parsed.error().what() +
        "); restore it from a copy, or remove it when all targets are in their places, and "
        "purge again what was purged while some were away");
  }
  *list = *std::move(parsed);
  return {};
}

Failure reload_records(const std::string& folder, TargetList* list) {
  Failure failure = load_records(folder, list);
  if (failure.ok() && list->boot_generation == 0) {
    failure = environment(folder + kRecordsName +
                          " is gone; restore it from a copy, or restart with all targets in their "
                          "places");
  }
  return failure;
}

Failure save_records(const std::string& folder, const TargetList& list) {
  const std::string path = folder + kRecordsName, text = records_text(list);
  std::string before;
  if (read_file(path, &before) && before == text) return {};
  const int32_t error = replace_file(path, text, Durability::kPowerCut);
  if (error == 0) return {};
  return environment(path + errno_suffix(error) + "; free space or check the folder");
}

std::vector<std::string> unused_targets(const std::string& folder, uint32_t used) {
  std::vector<std::string> out;
  DIR* open_folder = ::opendir(folder.c_str());
  if (open_folder == nullptr) return out;
  while (const dirent* entry = ::readdir(open_folder)) {
    unsigned index = 0;
    int length = 0;
    if (std::sscanf(entry->d_name, "target-%4u.dat%n", &index, &length) != 1) continue;
    if (length <= 0 || entry->d_name[length] != '\0' || index < used) continue;
    out.push_back(entry->d_name);
  }
  ::closedir(open_folder);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace varve
