// The table of domains, and its text: lines of words, the SHA-256 of all before in the last one.
#include "server/tenant/tenant.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace varve {

namespace {

constexpr std::string_view kHead = "varve domains ";
constexpr std::string_view kSumWord = "sum ";
constexpr uint32_t kTextVersion = 1;
constexpr uint32_t kStartMax = ~0u - 1;  // a start comes after each

Digest sha256(std::string_view text) {
  return Sha256().update(std::as_bytes(std::span(text.data(), text.size()))).finish();
}

// Takes the first word of a line, and the blank behind it.
std::string_view take_word(std::string_view& line) {
  const size_t end = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return word;
}

// Takes a whole line; false where it is cut off.
bool take_line(std::string_view& text, std::string_view* line) {
  const size_t end = text.find('\n');
  if (end == std::string_view::npos) return false;
  *line = text.substr(0, end);
  text.remove_prefix(end + 1);
  return true;
}

bool number_of(std::string_view word, uint32_t* number) {
  if (word.empty() || word.front() < '0' || word.front() > '9') return false;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), *number);
  return error == std::errc() && end == word.data() + word.size();
}

}  // namespace

bool is_domain_name(std::string_view name) {
  if (name.empty() || name.size() > kDomainNameBytesMax) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  });
}

Digest token_hash(std::string_view token) {
  return sha256(token);
}

Domains::Domains(const Digest& salt, std::string_view token) {
  Domain own;
  own.salt = salt;
  own.has_token = !token.empty();
  if (own.has_token) own.token_hash = varve::token_hash(token);
  rows_.push_back(std::move(own));
}

const Domain* Domains::find(uint32_t id) const {
  const auto at = std::find_if(rows_.begin(), rows_.end(),
                               [id](const Domain& domain) { return domain.id == id; });
  return at == rows_.end() ? nullptr : &*at;
}

const Domain* Domains::find(std::string_view name) const {
  const auto at = std::find_if(rows_.begin(), rows_.end(),
                               [name](const Domain& domain) { return domain.name == name; });
  return at == rows_.end() ? nullptr : &*at;
}

// Every row is compared, whatever came of those before, and what was found is summed up (T3).
const Domain* Domains::of_token(ConstByteSpan token) const {
  const Digest hash = Sha256().update(token).finish();
  size_t found = 0;  // 1 + its row
  for (size_t i = 0; i < rows_.size(); ++i) {
    const size_t equal = equal_secret(hash.bytes, rows_[i].token_hash.bytes) ? 1 : 0;
    found += (i + 1) * (equal & (rows_[i].has_token ? 1 : 0));
  }
  VARVE_ASSERT(found <= rows_.size(), found);  // T2: at most one
  if (found > 0) return &rows_[found - 1];
  return token.empty() && !by_default().has_token ? &by_default() : nullptr;
}

Domain* Domains::change(std::string_view name) {
  const auto at = std::find_if(rows_.begin() + 1, rows_.end(),
                               [name](const Domain& domain) { return domain.name == name; });
  return at == rows_.end() ? nullptr : &*at;
}

bool Domains::knows(const Digest& token_hash) const {
  return std::any_of(rows_.begin(), rows_.end(), [&](const Domain& domain) {
    return domain.has_token && domain.token_hash == token_hash;
  });
}

bool Domains::is_taken(const Digest& salt, const Digest& token_hash) const {
  return knows(token_hash) || std::any_of(rows_.begin(), rows_.end(), [&](const Domain& domain) {
           return domain.salt == salt;
         });
}

Status Domains::add(std::string_view name, const Secrets& secrets, uint32_t boot_generation) {
  VARVE_ASSERT(!secrets.token.empty());
  if (!is_domain_name(name)) return Status::invalid("no name of a domain");
  if (find(name) != nullptr) return Status::invalid("there is a domain of that name");
  if (rows_.size() >= kNodeDomainsMax) return Status::quota("a node has 32 domains at most");
  if (id_last_ == ~0u) return Status::unsupported("no id of a domain is left");
  const Digest hash = varve::token_hash(secrets.token);
  if (is_taken(secrets.salt, hash)) return Status::internal("a secret that is not a new one");
  rows_.push_back({++id_last_, std::string(name), secrets.salt, true, hash, boot_generation});
  ++changes_;
  return {};
}

Status Domains::rotate(std::string_view name, std::string_view token) {
  VARVE_ASSERT(!token.empty());
  Domain* domain = change(name);
  if (domain == nullptr) return Status::invalid("there is no such domain");
  const Digest hash = varve::token_hash(token);
  if (knows(hash)) return Status::internal("a secret that is not a new one");
  domain->token_hash = hash;
  ++changes_;
  return {};
}

Status Domains::drop(std::string_view name) {
  const Domain* domain = change(name);
  if (domain == nullptr) return Status::invalid("there is no such domain");
  rows_.erase(rows_.begin() + (domain - rows_.data()));
  ++changes_;
  return {};
}

void Domains::id_last_raise(uint32_t id) {
  id_last_ = std::max(id_last_, id);
}

void Domains::changes_raise(uint32_t changes) {
  changes_ = std::max(changes_, changes);
}

std::string Domains::text() const {
  std::string text = std::string(kHead) + std::to_string(kTextVersion) + " " +
                     std::to_string(id_last_) + " " + std::to_string(changes_) + "\n";
  for (const Domain& domain : rows_) {
    if (domain.id == kDomainDefault) continue;                 // T4
    VARVE_ASSERT(domain.id <= id_last_, domain.id, id_last_);  // T1
    text += std::to_string(domain.id) + " " + domain.name + " " +
            std::to_string(domain.boot_generation) + " " + to_hex(domain.salt.bytes) + " " +
            to_hex(domain.token_hash.bytes) + "\n";
  }
  return text + std::string(kSumWord) + to_hex(sha256(text).bytes) + "\n";
}

// "ID NAME START SALT HASH"
Status Domains::take_row(std::string_view line) {
  Domain row;
  row.has_token = true;
  const bool whole = number_of(take_word(line), &row.id) && row.id > rows_.back().id &&
                     row.id <= id_last_ && is_domain_name(row.name = take_word(line)) &&
                     number_of(take_word(line), &row.boot_generation) &&
                     row.boot_generation < kStartMax && from_hex(take_word(line), row.salt.bytes) &&
                     from_hex(take_word(line), row.token_hash.bytes) && line.empty();
  if (!whole) return Status::corrupt("a line is no domain");
  if (find(row.name) != nullptr) return Status::corrupt("a name stands in it twice");
  if (is_taken(row.salt, row.token_hash)) return Status::corrupt("a secret stands in it twice");
  if (rows_.size() >= kNodeDomainsMax) return Status::corrupt("too many domains");
  rows_.push_back(std::move(row));
  return {};
}

Result<Domains> Domains::with_text(std::string_view text) const {
  Domains table;
  table.rows_ = {by_default()};
  const std::string_view all = text;
  std::string_view line, head;
  uint32_t version = 0;
  if (!text.starts_with(kHead) || !take_line(text, &head)) {
    return Status::corrupt("its first line is not ours");
  }
  head.remove_prefix(kHead.size());
  if (!number_of(take_word(head), &version)) return Status::corrupt("its first line is not ours");
  if (version > kTextVersion) return Status::unsupported("a newer version of Varve wrote it");
  if (version == 0 || !number_of(take_word(head), &table.id_last_) ||
      table.id_last_ < kDomainDefault || !number_of(head, &table.changes_)) {
    return Status::corrupt("its first line is not ours");
  }
  while (true) {
    const size_t before_bytes = all.size() - text.size();
    if (!take_line(text, &line)) return Status::corrupt("its last line is cut off");
    if (!line.starts_with(kSumWord)) {
      VARVE_RETURN_IF_ERROR(table.take_row(line));
      continue;
    }
    Digest sum;
    if (!from_hex(line.substr(kSumWord.size()), sum.bytes) || !text.empty() ||
        sum != sha256(all.substr(0, before_bytes))) {
      return Status::corrupt("its sum does not hold");
    }
    return table;
  }
}

}  // namespace varve
