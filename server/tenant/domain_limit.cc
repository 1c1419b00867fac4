// DomainLimit: what is set aside for others, and what is left besides.
#include <algorithm>

#include "server/tenant/tenant.h"

namespace varve {

DomainLimit::DomainLimit(uint64_t limit, uint32_t domains)
    : limit_(limit), part_(0), unnamed_(domains - 1) {
  VARVE_ASSERT(domains > 0);
  part_ = std::max<uint64_t>(1, limit / 2 / domains);
}

void DomainLimit::other(uint64_t used) {
  others_ += used;
  aside_ += part_ - std::min(part_, used);
  unnamed_ -= std::min(unnamed_, 1u);
}

void DomainLimit::ending(uint64_t used) {
  others_ += used;
}

uint64_t DomainLimit::most() const {
  const uint64_t taken = others_ + aside_ + unnamed_ * part_;
  return std::max(part_, limit_ - std::min(limit_, taken));
}

DomainLimit::Share DomainLimit::share(uint64_t own) const {
  if (own <= part_) return Share::kPart;
  return own <= most() ? Share::kCommon : Share::kNone;
}

}  // namespace varve
