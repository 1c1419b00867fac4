// Ids and places as a hash would make them, and blocks as a push leaves them in the index.
#pragma once

#include <gtest/gtest.h>

#include <cstring>

#include "server/index/index.h"

namespace varve {

inline BaseId id_of(uint64_t n) {
  Random random(n);
  BaseId id;
  for (size_t i = 0; i < id.bytes.size(); i += 8) {
    const uint64_t word = random.next();
    std::memcpy(&id.bytes[i], &word, sizeof(word));
  }
  return id;
}

inline flash::Place place_of(uint64_t n) {
  Random random(n ^ 0x517C);
  flash::Place place;
  place.target = static_cast<uint8_t>(random.below(kTargetsMax));
  place.slice = static_cast<uint8_t>(random.below(kSlicesDefault));
  place.segment = static_cast<uint16_t>(random.below(65536));
  place.page = static_cast<uint32_t>(random.below(65536));
  place.pages = static_cast<uint32_t>(random.between(2, 65535));
  place.lead_pages = static_cast<uint32_t>(random.between(1, place.pages));
  return place;
}

// A block that was pushed and whose only fragment, at position 0, is on flash.
inline Located insert_on_flash(Index& index, const BlockId& block, const flash::Place& place) {
  Located where;
  EXPECT_EQ(index.insert(block, BlockState::kMemory, &where), Index::Insert::kDone);
  index.place_add(where, 0, place);
  index.settle(where);
  return *index.find(block);
}

}  // namespace varve
