// PushFormats: found by fingerprint, which stands for the format and so for its tables and lineage.
#include "server/op/push_format.h"

#include <algorithm>

namespace varve {

bool PushFormats::has_room(const SessionFormat& format) const {
  if (entries_.size() < kMax) return true;
  return std::any_of(entries_.begin(), entries_.end(), [&format](const auto& entry) {
    return entry->users == 0 || entry->format.fingerprint == format.fingerprint;
  });
}

const SessionFormat* PushFormats::take(const SessionFormat& format) {
  Entry* unused = nullptr;
  for (const auto& entry : entries_) {
    if (entry->format.fingerprint == format.fingerprint) {
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
  for (const auto& entry : entries_) {
    if (&entry->format != format) continue;
    VARVE_ASSERT(entry->users > 0);
    --entry->users;
    return;
  }
  VARVE_ASSERT(false);
}

uint32_t PushFormats::used() const {
  return static_cast<uint32_t>(
      std::count_if(entries_.begin(), entries_.end(), [](const auto& e) { return e->users > 0; }));
}

}  // namespace varve
