// Coder: a linear map over GF(256) from k positions of a stripe to up to m others.
//
//   positions   0 .. k-1 data, k .. k+m-1 parity
//   encode      sources 0 .. k-1            outputs k .. k+m-1
//   rebuild     k of those that are left    outputs those that are wanted
//
// It works on one column at a time: at most kColumnBytes at the same offset of every extent, so
// that what is read once is coded and digested while it is in the cache. Columns are independent;
// whoever streams codes each when its bytes are there.
#pragma once

#include <array>
#include <cstdint>

#include "common/base/base.h"
#include "common/erasure/kernel.h"
#include "common/model/model.h"

namespace varve {

inline constexpr uint32_t kColumnBytes = 64 * 1024;  // at most; of each source and output

// Bit p is position p of a stripe.
using Positions = uint16_t;

// A stripe that lost some of its extents. Behind the last member of a stripe of fewer than k are
// only zeros: count hollow_positions() as present, their spans are empty.
struct Loss {
  Positions present = 0;  // those whose bytes are known
  Positions wanted = 0;   // those to rebuild; none of them present
};

// The data positions of a stripe of `members` <= k extents that hold nothing, hence are known.
Positions hollow_positions(Scheme scheme, uint32_t members);

class Coder {
 public:
  // All parity from all data. A scheme without parity has no outputs.
  explicit Coder(Scheme scheme);
  // kUnavailable when fewer than k positions are present (E1). Of more than k the first k are the
  // sources: leave out of `present` what had better not be read.
  static Result<Coder> rebuild(Scheme scheme, Loss loss);

  // Positions, in the order in which run() takes its spans.
  std::span<const uint8_t> sources() const { return {sources_.data(), source_count_}; }
  std::span<const uint8_t> outputs() const { return {outputs_.data(), output_count_}; }

  // One column. Spans begin at its offset in their extents and are cut where the extent ends (E2):
  // empty = it ended before, or the stripe does not have that member. No output overlaps a source.
  void run(std::span<const ConstByteSpan> sources, std::span<const ByteSpan> outputs) const;
  // And adds each output to its digest while it is hot; columns then come in ascending order.
  void run(std::span<const ConstByteSpan> sources, std::span<const ByteSpan> outputs,
           std::span<ExtentDigest> digests) const;

 private:
  Coder(Scheme scheme, Loss loss);  // exactly k are present
  struct Segment;
  void run_segment(const Segment& segment) const;

  std::array<uint8_t, kDataMax> sources_{};
  std::array<uint8_t, kParityMax> outputs_{};
  uint8_t source_count_ = 0, output_count_ = 0;
  // Row by output, column by source.
  std::array<std::array<uint8_t, kDataMax>, kParityMax> coefficients_{};
  Kernel all_;  // of all of them, for columns that nothing ends in
};

}  // namespace varve
