// PushFormats: found by fingerprint, which stands for the format and so for its tables and lineage.
#include "server/op/push_format.h"

#include <algorithm>

namespace varve {

namespace {

// The lineage is part of what the fingerprint is of; a purge of it must not hang on that.
bool is_same(const SessionFormat& one, const SessionFormat& other) {
  return one.fingerprint == other.fingerprint && one.lineage == other.lineage;
}

}  // namespace

bool PushFormats::has_room(const SessionFormat& format) const {
  if (entries_.size() < kMax) return true;
  return std::any_of(entries_.begin(), entries_.end(), [&format](const auto& entry) {
    return entry->users == 0 || is_same(entry->format, format);
  });
}

const SessionFormat* PushFormats::take(const SessionFormat& format) {
  Entry* unused = nullptr;
  for (const auto& entry : entries_) {
    if (is_same(entry->format, format)) {
      ++entry->users;
      return &entry->format;
    }
    if (entry->users == 0) unused = entry.get();
  }
  if (entries_.size() < kMax) {
    unused = entries_.emplace_back(std::make_unique<Entry>()).get();
  } else if (unused == nullptr) {
    return nullptr;
  }
  unused->format = format;
  unused->format.counts = nullptr;  // the session's
  unused->users = 1;
  return &unused->format;
}

void PushFormats::give(const SessionFormat* format) {
  const auto at = std::find_if(entries_.begin(), entries_.end(),
                               [format](const auto& entry) { return &entry->format == format; });
  VARVE_ASSERT(at != entries_.end() && (*at)->users > 0);
  if (--(*at)->users > 0 || entries_.size() - used() <= kUnusedMax) return;
  *at = std::move(entries_.back());
  entries_.pop_back();
}

uint32_t PushFormats::used() const {
  return static_cast<uint32_t>(
      std::count_if(entries_.begin(), entries_.end(), [](const auto& e) { return e->users > 0; }));
}

}  // namespace varve
