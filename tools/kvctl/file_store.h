// FileStore: files in a node's cache, through the data plane as an engine uses it, to try a node
// out. A cache is no place to keep files: what is put may be evicted like any block.
//
// A file is cut in blocks of 1 MiB of one opaque layer; the first begins with a head, the last is
// filled up with zeros. The key is the SHA-256 of the file's content, and what the base ids are
// made of: whoever may read the domain finds the file by its key alone.
//
//   block 0                              block 1                  last block
//   +------+---------------------------+ +----------------------+ +-----------+----------+
//   | head | content                   | | content              | | content   | zeros    |
//   +------+---------------------------+ +----------------------+ +-----------+----------+
//     64 B
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client/varve.h"
#include "tools/kvctl/local_file.h"
#include "tools/kvctl/outcome.h"

namespace varve::kvctl {

inline constexpr uint32_t kFileBlockBytes = 1024 * 1024;
inline constexpr uint64_t kFileBytesMax = 16 * kGiB;  // more than a trial needs

// As it lies at the beginning of block 0.
struct FileHead {
  char magic[8];
  uint32_t version;
  uint32_t zero;
  uint64_t file_bytes;
  Digest key;
  uint64_t reserved;
};
static_assert(sizeof(FileHead) == 64 && std::is_trivially_copyable_v<FileHead>);

uint32_t file_blocks(uint64_t file_bytes);  // with the head
FileHead head_of(const Digest& key, uint64_t file_bytes);
// Empty when it is the head of that file; else why not.
std::string bad_head(const FileHead& head, const Digest& key);
// How a command ends that failed by a status of the data plane: exit, gRPC's name, remedy.
Outcome store_failed(const std::string& doing, const Status& status);
// What the base id of one block is made of (base_id_of_hash).
Digest block_hash(const Digest& key, uint32_t block);
Format file_format();

struct StoreOptions {
  std::string address, token;
  Nanos timeout_ns = 0;
  wire::AckKind ack = wire::AckKind::kDurable;
};

struct Stored {
  Digest key;
  uint64_t file_bytes = 0;
  uint64_t blocks_there = 0;  // of a put: that were stored before
  std::vector<BaseId> ids;    // of all blocks
};

class FileStore {
 public:
  explicit FileStore(StoreOptions options) : options_(std::move(options)) {}

  Outcome put(const std::string& file, Stored* stored);
  // Finishes `file` when all of it has come and is what the key says, and not before.
  Outcome get(const Digest& key, NewFile& file, Stored* stored);

 private:
  Outcome connect();
  Outcome make_ids(const Digest& key, uint32_t blocks, std::vector<BaseId>* ids);
  Outcome push_all(const SourceFile& source, const Stored& stored);
  Outcome push_window(const std::vector<BaseId>& ids, uint32_t first, uint32_t count);
  Outcome find_window(const std::vector<BaseId>& ids, uint64_t* lease);
  Outcome pull_window(const std::vector<BaseId>& ids, uint32_t first, uint32_t count);
  Outcome pull_all(NewFile& file, const Stored& stored);
  Result<Event> ended(const Result<OpId>& op);

  const StoreOptions options_;
  std::vector<std::byte> memory_;  // one window of blocks; outlives the client, which writes there
  Layout layout_;
  std::unique_ptr<Client> client_;
  FormatId format_ = 0;
};

}  // namespace varve::kvctl
