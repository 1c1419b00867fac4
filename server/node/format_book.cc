// Formats are kept as they are encoded and read again when somebody asks: few do, and the
// description of a large one takes twice the memory.
#include "server/node/format_book.h"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstring>

namespace varve {

namespace {

constexpr Nanos kWaitMax = 60 * kSecond;  // for another's writing, whatever limit is given
constexpr uint32_t kFailuresMax = 4;      // of one keep(): a hung or full disk is not asked for all

}  // namespace

Failure FormatBook::load(const std::string& folder) {
  const std::lock_guard<std::mutex> lock(mutex_);
  VARVE_ASSERT(entries_.empty());
  std::vector<KeptFormat> formats;
  std::vector<std::string> odd;
  if (Failure failure = load_formats(folder, kFormatsMax, &formats, &odd); !failure.ok()) {
    return failure;
  }
  for (KeptFormat& format : formats) {
    // The hash says that it is what was written; a newer version may have written it.
    const bool readable = static_cast<bool>(Format::decode(format.canonical));
    if (!readable || bytes_ + format.canonical.size() > kBytesMax) {
      odd.push_back(to_hex(format.fingerprint.bytes));
      continue;
    }
    bytes_ += format.canonical.size();
    entries_.push_back({std::move(format), true});
  }
  if (!odd.empty()) {
    logf(LogLevel::kWarn, "main",
         "%zu files in %s/formats do not verify, cannot be read by this version, or are too many "
         "(%s ...): their formats are not shown; remove them",
         odd.size(), folder.c_str(), odd.front().c_str());
  }
  return {};
}

FormatBook::Added FormatBook::add(ConstByteSpan canonical) {
  KeptFormat format;
  format.fingerprint = Sha256().update(canonical).finish();
  format.canonical.assign(canonical.begin(), canonical.end());
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.format.fingerprint == format.fingerprint) return Added::kKnown;
  }
  if (entries_.size() >= kFormatsMax || bytes_ + canonical.size() > kBytesMax) {
    ++refused_;
    return Added::kFull;
  }
  bytes_ += canonical.size();
  entries_.push_back({std::move(format), false});
  return Added::kNew;
}

// From *index on, before `end`; entries stay where they are.
bool FormatBook::next_unkept(size_t* index, size_t end, KeptFormat* format) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (; *index < std::min(end, entries_.size()); ++*index) {
    if (entries_[*index].kept) continue;
    *format = entries_[*index].format;
    return true;
  }
  return false;
}

bool FormatBook::keep(const std::string& folder, Nanos now_ns, Nanos limit_ns) {
  std::unique_lock<std::timed_mutex> writing(writing_, std::defer_lock);
  if (!writing.try_lock_for(std::chrono::nanoseconds(std::min(limit_ns, kWaitMax)))) return true;
  uint64_t swallowed = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (refused_ > said_ && full_log_.admit(now_ns, &swallowed)) {
      logf(LogLevel::kWarn, "main",
           "%" PRIu64 " formats came that are not kept, because %zu are (%" PRIu64
           " bytes): their clients are served, and they cannot be shown or compared; to make room, "
           "stop the node and remove files of %s/formats",
           refused_ - said_, entries_.size(), bytes_, folder.c_str());
      said_ = refused_;
    }
  }
  // From behind the last that could not be written, and round: one that never can be (a folder has
  // its name) keeps no other from it.
  const size_t begin = next_;
  uint32_t failures = 0;
  write_unkept(folder, now_ns, begin, ~size_t{0}, &failures);
  write_unkept(folder, now_ns, 0, begin, &failures);
  return failures == 0;
}

void FormatBook::write_unkept(const std::string& folder, Nanos now_ns, size_t begin, size_t end,
                              uint32_t* failures) {
  KeptFormat format;
  for (size_t i = begin; *failures < kFailuresMax && next_unkept(&i, end, &format); ++i) {
    const Failure failure = save_format(folder, format);
    if (failure.ok()) {
      const std::lock_guard<std::mutex> lock(mutex_);
      entries_[i].kept = true;
      continue;
    }
    ++*failures;
    next_ = i + 1;
    uint64_t swallowed = 0;
    if (!unkept_log_.admit(now_ns, &swallowed)) continue;
    logf(LogLevel::kWarn, "main",
         "%s; formats are not known after a restart (%" PRIu64 " more since the last line)",
         failure.text.c_str(), swallowed);
  }
}

FormatBook::Row FormatBook::row_of(const Entry& entry) {
  Result<Format> format = Format::decode(entry.format.canonical);
  VARVE_ASSERT(format.has_value());  // it was, when it came
  return {entry.format.fingerprint, *std::move(format), entry.kept};
}

std::vector<FormatBook::Row> FormatBook::rows(uint64_t cursor, uint32_t rows_max,
                                              uint64_t* next) const {
  VARVE_ASSERT(rows_max > 0 && next != nullptr);
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<Row> out;
  uint64_t at = std::min<uint64_t>(cursor, entries_.size());
  for (; at < entries_.size() && out.size() < rows_max; ++at)
    out.push_back(row_of(entries_[at]));
  *next = at < entries_.size() ? at : 0;
  return out;
}

std::vector<FormatBook::Row> FormatBook::find(ConstByteSpan begin) const {
  VARVE_ASSERT(!begin.empty() && begin.size() <= sizeof(Digest), begin.size());
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<Row> out;
  for (const Entry& entry : entries_) {
    const auto& bytes = entry.format.fingerprint.bytes;
    if (std::memcmp(bytes.data(), begin.data(), begin.size()) != 0) continue;
    out.push_back(row_of(entry));
    if (out.size() == 2) break;
  }
  return out;
}

std::vector<Digest> FormatBook::fingerprints() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<Digest> out;
  for (const Entry& entry : entries_)
    out.push_back(entry.format.fingerprint);
  return out;
}

uint64_t FormatBook::refused() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return refused_;
}

}  // namespace varve
