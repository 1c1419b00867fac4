// Goal: what a reader without a lock is told was true as a whole at one moment, whatever the writer
// does. Method: drawn puts and erases against a map; then readers on threads against a writer that
// keeps all words of a key equal.
#include "client/peek.h"

#include <gtest/gtest.h>

#include <map>
#include <thread>
#include <vector>

namespace varve {
namespace {

PeekWords all(uint64_t value) {
  PeekWords words;
  words.fill(value);
  return words;
}

TEST(PeekTest, FindsWhatWasPutAndNothingElse) {
  Random random(7);
  PeekTable table(40);
  std::map<uint64_t, uint64_t> model;
  for (uint32_t i = 0; i < 20000; ++i) {
    const uint64_t key = 1 + random.below(60);
    if (random.chance(600)) {
      const bool fits = model.count(key) == 1 || model.size() < 40;
      EXPECT_EQ(table.put(key, all(i)), fits);
      if (fits) model[key] = i;
    } else {
      table.erase(key);
      model.erase(key);
    }
    ASSERT_EQ(table.count(), model.size());
    const uint64_t asked = 1 + random.below(60);
    PeekWords words;
    const auto found = table.find(asked, words);
    ASSERT_EQ(found == PeekTable::Found::kYes, model.count(asked) == 1);
    if (found == PeekTable::Found::kYes) {
      EXPECT_EQ(words, all(model[asked]));
    }
  }
}

TEST(PeekTest, AFullTableRefusesNewKeysAndChangesOldOnes) {
  PeekTable table(2);
  EXPECT_TRUE(table.put(1, all(1)));
  EXPECT_TRUE(table.put(2, all(2)));
  EXPECT_FALSE(table.put(3, all(3)));
  EXPECT_TRUE(table.put(1, all(4)));
  table.erase(2);
  EXPECT_TRUE(table.put(3, all(3)));
}

// K1
TEST(PeekTest, AReaderNeverSeesHalfOfAChange) {
  constexpr uint64_t kKeys = 8;
  PeekTable table(kKeys);
  std::atomic<bool> done{false};
  std::atomic<uint64_t> seen{0};
  std::vector<std::thread> readers;
  for (uint32_t r = 0; r < 3; ++r) {
    readers.emplace_back([&, r] {
      for (uint64_t key = r; !done.load(); ++key) {
        PeekWords words;
        if (table.find(1 + key % kKeys, words) != PeekTable::Found::kYes) continue;
        EXPECT_EQ(words, all(words[0]));
        EXPECT_EQ(words[0] % kKeys, key % kKeys);  // and of this key
        ++seen;
      }
    });
  }
  for (uint64_t i = 0; i < 20000 || seen.load() == 0; ++i) {
    const uint64_t key = i * 5 % kKeys;
    table.put(1 + key, all(i / kKeys * kKeys + key));
    if (i % 3 == 0) table.erase(1 + i * 7 % kKeys);
  }
  done = true;
  for (auto& reader : readers)
    reader.join();
}

}  // namespace
}  // namespace varve
