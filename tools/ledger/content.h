// Content: the bytes of a block as one writer makes them, so that bytes found later name their
// writer.
//
// Every layer is a function of (block, layer, salt), and its first eight bytes hide the salt. Two
// writers of one block differ in every word; a mix of two attempts, a foreign block or a torn one
// verifies under no salt.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/base.h"
#include "common/model/model.h"

namespace varve::ledger {

// Who wrote: unique per write of one block in a run of the ledger, never 0.
using Salt = uint64_t;

inline constexpr uint32_t kLayerBytesMin = 8;  // room for the salt

void fill_layer(const BlockId& block, uint32_t layer, Salt salt, ByteSpan out);

// Whether these are the bytes of that writer, every one.
bool is_layer_of(const BlockId& block, uint32_t layer, Salt salt, ConstByteSpan bytes);

// The one salt under which every layer verifies to the last byte; none: these are nobody's bytes.
std::optional<Salt> writer_of(const BlockId& block, const std::vector<ConstByteSpan>& layers);

}  // namespace varve::ledger
