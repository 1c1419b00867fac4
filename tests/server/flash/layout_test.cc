// The on-drive structs as bytes against golden vectors, which tests/vectors/check_vectors.py makes
// from the document alone. A difference means that old drives can no longer be read.
#include "server/flash/layout.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <map>

#include "server/flash/catalog.h"
#include "server/flash/fragment.h"
#include "server/flash/segment.h"

namespace varve::flash {
namespace {

constexpr uint64_t kNonce = 0x0123456789ABCDEF;

std::map<std::string, std::string> golden() {
  std::ifstream file("tests/vectors/flash_1.txt");
  std::map<std::string, std::string> cases;
  std::string line, name;
  while (std::getline(file, line)) {
    if (line.starts_with("case ")) name = line.substr(5);
    if (line.starts_with("bytes ")) cases[name] = line.substr(6);
  }
  return cases;
}

void count_from(std::span<std::byte> bytes, uint32_t first) {
  for (std::byte& byte : bytes)
    byte = static_cast<std::byte>(first++);
}

// Without the zeros at the end, as the file has them.
void expect_golden(const std::string& name, ConstByteSpan bytes) {
  while (!bytes.empty() && bytes.back() == std::byte{0})
    bytes = bytes.first(bytes.size() - 1);
  const auto cases = golden();
  ASSERT_TRUE(cases.contains(name)) << name;
  EXPECT_EQ(to_hex(bytes), cases.at(name)) << name;
}

TEST(Layout, SuperblockIsGolden) {
  Superblock super;
  super.write_count = 7;
  count_from(super.target_uuid, 0);
  count_from(super.node_uuid, 16);
  super.capacity_bytes = 64 * kMiB;
  super.slices = 4;
  super.segment_pages = 256;
  super.segments_per_slice = 13;
  super.checkpoint_pages = 8;
  super.k = 4;
  super.m = 2;
  super.geometry_hash = geometry_hash(super);
  super.boot_generation = 5;
  super.target_index = 2;
  super.generation_count = 1;
  super.generations[0].domain = 3;
  super.generations[0].domain_generation = 4;
  super.crc = crc32c(0, bytes_view(super));
  expect_golden("superblock", bytes_view(super));
}

TEST(Layout, SegmentHeaderIsGolden) {
  PageMemory page(1);
  SegmentHeader header;
  count_from(header.target_uuid, 0);
  header.slice = 1;
  header.segment = 6;
  header.sequence = 9;
  header.nonce = kNonce;
  header.boot_generation = 5;
  fill_segment_header(page.span(0, 1), header);
  expect_golden("segment", page.span(0, 1));
}

FragmentHeader sample(PageMemory& page) {
  FragmentHeader header;
  header.extent_count = header.data_extent_count = 1;
  count_from(header.base.bytes, 32);
  count_from(header.parent.bytes, 64);
  count_from(header.fingerprint.bytes, 96);
  header.rank = 1;
  header.rank_count = 2;
  header.attempt = {5, 2, 11};
  header.epoch = 1;
  header.block_bytes_low = 5000;
  header.lineage = 0x1112;
  ExtentEntry entry;
  entry.stored_bytes = entry.decoded_bytes = 5000;
  entry.stored_crc = 0xAABBCCDD;
  entry.decoded_xxh3 = 0x5566;
  store(page.span(0, 1), 0, header);
  const iovec piece = {page.page(0), kPageBytes};
  auto& placed = *reinterpret_cast<FragmentHeader*>(page.page(0));
  table_entry_set({&piece, 1}, 0, entry);
  lay_out({&piece, 1}, placed);
  seal_header({&piece, 1}, placed, {kNonce, 9, 17, 100});
  return placed;
}

TEST(Layout, FragmentHeaderAndTableAreGolden) {
  PageMemory page(1);
  sample(page);
  expect_golden("fragment", page.span(0, 1).first(288));
}

TEST(Layout, FooterIsGolden) {
  PageMemory page(1);
  FooterImage image;
  image.add(entry_of(sample(page)));
  FooterTrailer trailer;
  trailer.slice = 1;
  trailer.segment = 6;
  trailer.entry_count = 1;
  trailer.sequence = 9;
  trailer.nonce = kNonce;
  count_from(trailer.target_uuid, 0);
  trailer.used_pages = 20;
  trailer.boot_generation = 5;
  const std::span<const iovec> runs = image.finish(trailer);
  ASSERT_EQ(runs.size(), 1u);
  expect_golden("footer", {static_cast<const std::byte*>(runs[0].iov_base), kPageBytes});
}

TEST(Layout, CheckpointHeaderIsGolden) {
  PageMemory page(1);
  CheckpointHeader header;
  header.slice = 1;
  count_from(header.target_uuid, 0);
  header.write_count = 3;
  header.next_sequence = 10;
  header.segment_count = 1;
  header.entry_count = 1;
  store(page.span(0, 1), 0, header);
  seal_page(page.span(0, 1), 0, 0, 3);
  expect_golden("checkpoint", page.span(0, 1));
}

}  // namespace
}  // namespace varve::flash
