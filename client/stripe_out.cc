// StripeOut: a round is made only when all of it has room, so nobody waits with half of one.
#include "client/stripe_out.h"

#include <algorithm>

namespace varve {

static_assert(kPayloadBytesMax % kColumnBytes == 0);

void StripeOut::begin(const ExtentTable& table, const BoundLayout& layout, const Of& of) {
  VARVE_ASSERT(table_ == nullptr && table.scheme.m > 0);
  VARVE_ASSERT(of.stripe < table.stripes.size(), of.stripe);
  if (!coder_) coder_.emplace(table.scheme);  // a push has one table
  table_ = &table;
  layout_ = &layout;
  of_ = of;
  offset_ = bytes_ = next_ = 0;
  digests_.clear();
  for (uint32_t j = 0; j < parity_count(); ++j)
    digests_.emplace_back(checksum_seed(of.id, table.parity_at(of.stripe, j), of.attempt));
}

std::optional<StripeOut::Piece> StripeOut::piece() {
  VARVE_ASSERT(under_way());
  if (bytes_ == 0 && !make()) return std::nullopt;
  return Piece{next_, offset_, bytes_, &columns_[next_]};
}

void StripeOut::sent() {
  VARVE_ASSERT(bytes_ > 0 && columns_[next_].empty(), next_);
  if (++next_ < parity_count()) return;
  offset_ += bytes_;
  bytes_ = next_ = 0;
}

bool StripeOut::make() {
  VARVE_ASSERT(bytes_ == 0 && next_ == 0 && offset_ < stripe().bytes, offset_);
  const uint32_t bytes = std::min(kPayloadBytesMax, stripe().bytes - offset_);
  const uint32_t columns = columns_of(bytes);
  Columns all;
  if (!scratch_.take(columns * parity_count(), all)) return false;
  for (uint32_t j = 0; j < parity_count(); ++j)
    columns_[j].assign(all.begin() + j * columns, all.begin() + (j + 1) * columns);
  for (uint32_t c = 0; c < columns; ++c)
    make_column(c, std::min(kColumnBytes, bytes - c * kColumnBytes));
  bytes_ = bytes;
  return true;
}

void StripeOut::make_column(uint32_t column, uint32_t bytes) {
  const uint32_t offset = offset_ + column * kColumnBytes;
  ConstByteSpan sources[kDataMax];
  ByteSpan outputs[kParityMax];
  const uint32_t k = table_->scheme.k;
  VARVE_ASSERT(gather_.size() >= size_t{k} * kColumnBytes, gather_.size());
  for (uint32_t p = 0; p < stripe().count; ++p) {
    const ExtentSpec& member = table_->extents[stripe().first + p];
    if (member.bytes <= offset) continue;
    sources[p] = layout_->view(of_.slot, member, offset, std::min(bytes, member.bytes - offset),
                               gather_.subspan(size_t{p} * kColumnBytes, kColumnBytes));
  }
  for (uint32_t j = 0; j < parity_count(); ++j)
    outputs[j] = {columns_[j][column], bytes};
  coder_->run({sources, k}, {outputs, parity_count()}, digests_);
}

ExtentEntry StripeOut::entry(uint32_t j) const {
  VARVE_ASSERT(j < digests_.size(), j);
  ExtentEntry entry;
  entry.stored_bytes = entry.decoded_bytes = stripe().bytes;
  entry.stripe = static_cast<uint16_t>(of_.stripe);
  entry.codec = static_cast<uint8_t>(CodecId::kRaw);
  entry.stored_crc = digests_[j].stored_crc();
  entry.decoded_xxh3 = digests_[j].decoded_xxh3();
  return entry;
}

void StripeOut::drop() {
  for (Columns& columns : columns_)
    scratch_.give(columns);
  table_ = nullptr;
}

}  // namespace varve
