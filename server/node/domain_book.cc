// The file of domains: read once, at the start, and replaced whole by every change.
#include "server/node/domain_book.h"

#include <algorithm>
#include <cerrno>

namespace varve {

namespace {

using control::Refusal;

constexpr const char* kListName = "/domains.list";
// What an operator writes into the file to say that the domains that were in it are given up.
constexpr std::string_view kGivenUp = "none";
// And before its first line, to say that an older one is to be taken.
constexpr std::string_view kOlder = "older\n";
constexpr uint32_t kTokenBytes = 32;

std::string fresh_token(Entropy& entropy) {
  std::array<std::byte, kTokenBytes> bytes;
  entropy.fill(bytes);
  return to_hex(bytes);
}

Failure missing(const std::string& path) {
  return environment(
      path +
      " is missing, but this node had more domains than the default one: without it nothing of "
      "theirs would ever be found, and it would be dropped. Restore the file from a copy; to give "
      "those domains up, with all they hold, write the line \"none\" into it, mode 0600");
}

// It would bring back what was ended since, and no generation is left that says so.
Failure older(const std::string& path, uint32_t changes, uint32_t changes_before) {
  return environment(
      path + " is a copy of before: it has " + std::to_string(changes) +
      " changes, and there were " + std::to_string(changes_before) +
      ". Domains that were dropped since would be back, with their blocks, and tokens that were "
      "replaced. Restore the file of the last change. Where that is lost, write the line \"older\" "
      "before its first one, start, and then purge each domain and rotate its token; to give all "
      "domains but the default one up, write the line \"none\" into it instead");
}

Refusal not_there(const std::string& name) {
  return Refusal::not_found("there is no domain \"" + name + "\"; list the domains");
}

control::DomainToken told(const Domain& domain, std::string token) {
  control::DomainToken out;
  out.domain.name = domain.name;
  out.domain.id = domain.id;
  out.domain.has_token = domain.has_token;
  out.token = std::move(token);
  return out;
}

}  // namespace

Failure DomainBook::load(const std::string& folder, std::string_view token, Identity* identity) {
  VARVE_ASSERT(identity != nullptr);
  const std::lock_guard<std::mutex> lock(mutex_);
  table_ = Domains(identity->domain_salt, token);
  const std::string path = folder + kListName;
  TargetList list;
  Failure failure = load_records(folder, &list);
  std::string text;
  bool found = false;
  if (failure.ok()) failure = read_secrets(path, &text, &found);
  if (!failure.ok()) return failure;
  if (!found && list.domain_id_last > kDomainDefault) return missing(path);
  if (found && text != kGivenUp && text != std::string(kGivenUp) + "\n") {
    const bool older_taken = text.starts_with(kOlder);
    if (older_taken) text.erase(0, kOlder.size());
    Result<Domains> read = table_.with_text(text);
    if (!read && read.error().code() == Code::kUnsupported) {
      return environment(path + " is refused: " + read.error().what() +
                         "; start that version, or a data folder of this one");
    }
    if (!read) {
      return environment(path + " is damaged, or names what another domain has (" +
                         read.error().what() + "); restore it from a copy. To give all domains " +
                         "but the default one up, write the line \"none\" into it");
    }
    if (read->changes() < list.domain_changes) {
      if (!older_taken) return older(path, read->changes(), list.domain_changes);
      logf(LogLevel::kWarn, "main",
           "%s is a copy of before, of %u changes out of %u, and is taken as it says: what domains "
           "made since hold is dropped; PURGE EACH DOMAIN AND ROTATE ITS TOKEN",
           path.c_str(), read->changes(), list.domain_changes);
    }
    table_ = *std::move(read);
  }
  table_.id_last_raise(list.domain_id_last);
  table_.changes_raise(list.domain_changes);
  id_seen_ = list.domain_id_seen;
  changes_marked_ = table_.changes();  // the start writes it
  identity->domain_ids.clear();
  identity->domain_starts.clear();
  for (const Domain& domain : table_.all()) {
    identity->domain_ids.push_back(domain.id);
    identity->domain_starts.push_back(domain.boot_generation);
  }
  identity->domain_id_last = table_.id_last();
  identity->domain_changes = table_.changes();
  return {};
}

Domains DomainBook::now() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return table_;
}

bool DomainBook::is_above(uint32_t id) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return id > std::max(table_.id_last(), id_seen_);
}

void DomainBook::seen(uint32_t id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  id_seen_ = std::max(id_seen_, id);
}

bool DomainBook::is_marked() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return changes_marked_ >= table_.changes();
}

void DomainBook::marked(uint32_t changes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  changes_marked_ = std::max(changes_marked_, changes);
}

Domain* DomainBook::ending(const std::string& name) {
  const auto at = std::find_if(ending_.begin(), ending_.end(),
                               [&name](const Domain& domain) { return domain.name == name; });
  return at == ending_.end() ? nullptr : &*at;
}

// Under writing_. Into the file, then into memory. A step that fails behind the rename leaves the
// change in the file, where the next start would find it: it is taken back.
std::optional<Refusal> DomainBook::keep(const std::string& folder, Domains next) {
  const std::string path = folder + kListName, text = next.text();
  const int32_t error = replace_file(path, text, Durability::kPowerCut);
  if (error == 0) {
    const std::lock_guard<std::mutex> lock(mutex_);
    table_ = std::move(next);
    return std::nullopt;
  }
  std::string now;
  const bool changed = read_file(path, &now) && now == text;
  const bool back = !changed || replace_file(path, table_.text(), Durability::kPowerCut) == 0;
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  return Refusal::of(full ? Code::kNoSpace : Code::kIo,
                     path + errno_suffix(error) +
                         (back ? "; nothing was changed; free space or check the folder, and ask "
                                 "again"
                               : "; the next start may find the change in it; check the folder, "
                                 "and ask again"));
}

control::Answer<control::DomainToken> DomainBook::add(const std::string& folder,
                                                      const std::string& name, Entropy& entropy,
                                                      uint32_t boot_generation, uint32_t id_seen) {
  const std::lock_guard<std::mutex> writing(writing_);
  std::unique_lock<std::mutex> lock(mutex_);
  if (table_.find(name) != nullptr) {
    return Refusal::state("there is a domain \"" + name +
                          "\" already; rotate its token if that is lost");
  }
  if (ending(name) != nullptr) {
    return Refusal::state("the domain \"" + name +
                          "\" that was dropped is not purged yet; drop it again until that is "
                          "answered");
  }
  Domains next = table_;
  next.id_last_raise(std::max(id_seen, id_seen_));
  Domains::Secrets secrets;
  entropy.fill(secrets.salt.bytes);
  secrets.token = fresh_token(entropy);
  if (const Status added = next.add(name, secrets, boot_generation); !added.ok()) {
    return Refusal::of(added.code(), std::string(added.what()) +
                                         (added.code() == Code::kQuota ? "; drop one" : ""));
  }
  lock.unlock();
  if (auto refusal = keep(folder, std::move(next))) return *refusal;
  return told(*table_.find(name), std::move(secrets.token));
}

control::Answer<control::DomainToken> DomainBook::rotate(const std::string& folder,
                                                         const std::string& name,
                                                         Entropy& entropy) {
  const std::lock_guard<std::mutex> writing(writing_);
  std::unique_lock<std::mutex> lock(mutex_);
  if (name == kDomainNameDefault) {
    return Refusal::state(
        "the token of the domain \"default\" is that of --token-file: replace that file and "
        "restart");
  }
  if (table_.find(name) == nullptr) return not_there(name);
  Domains next = table_;
  std::string token = fresh_token(entropy);
  if (const Status rotated = next.rotate(name, token); !rotated.ok()) {
    return Refusal::of(rotated.code(), rotated.what());
  }
  lock.unlock();
  if (auto refusal = keep(folder, std::move(next))) return *refusal;
  return told(*table_.find(name), std::move(token));
}

control::Answer<Domain> DomainBook::drop(const std::string& folder, const std::string& name) {
  const std::lock_guard<std::mutex> writing(writing_);
  std::unique_lock<std::mutex> lock(mutex_);
  if (name == kDomainNameDefault) {
    return Refusal::state(
        "the domain \"default\" cannot be dropped; to end what it holds, purge it");
  }
  if (const Domain* again = ending(name)) return *again;
  const Domain* found = table_.find(name);
  if (found == nullptr) return not_there(name);
  const Domain dropped = *found;
  Domains next = table_;
  if (const Status gone = next.drop(name); !gone.ok()) {
    return Refusal::of(gone.code(), gone.what());
  }
  lock.unlock();
  if (auto refusal = keep(folder, std::move(next))) return *refusal;
  lock.lock();
  ending_.push_back(dropped);
  return dropped;
}

void DomainBook::ended(uint32_t id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase_if(ending_, [id](const Domain& domain) { return domain.id == id; });
}

}  // namespace varve
