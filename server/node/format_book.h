// FormatBook: the formats that this node has ever seen, in memory and in the data folder.
//
// Bounded in number and bytes, because clients choose formats as they like: what comes when it is
// full is used as ever, and only not kept. Any thread. load() and keep() wait for files, and nobody
// waits for those two but who calls keep().
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "common/model/model.h"
#include "common/time/time.h"
#include "server/host/host.h"

namespace varve {

class FormatBook {
 public:
  static constexpr uint32_t kFormatsMax = 1024;
  static constexpr uint64_t kBytesMax = 16 * kMiB;

  // What earlier lives kept; says on the log what of it does not verify.
  Failure load(const std::string& folder);
  enum class Added : uint8_t { kNew, kKnown, kFull };
  // `canonical` is the encoding of a valid format. In memory; keep() is next.
  Added add(ConstByteSpan canonical);
  // Writes what is not written yet; false: some could not be, which is said at most once a minute,
  // and no other was kept from it for longer than a call or two. Nothing is done where another does
  // it for the whole of the limit.
  bool keep(const std::string& folder, Nanos now_ns, Nanos limit_ns);

  struct Row {
    Digest fingerprint;
    Format format;
    bool kept = false;
  };
  // At most `rows_max`, from `cursor` on; *next is where the next page begins, 0: that was all.
  std::vector<Row> rows(uint64_t cursor, uint32_t rows_max, uint64_t* next) const;
  // Those whose fingerprint begins so, two at most.
  std::vector<Row> find(ConstByteSpan begin) const;
  std::vector<Digest> fingerprints() const;
  uint64_t refused() const;  // that came when it was full

 private:
  struct Entry {
    KeptFormat format;
    bool kept = false;
  };
  static Row row_of(const Entry& entry);
  bool next_unkept(size_t* index, size_t end, KeptFormat* format) const;
  void write_unkept(const std::string& folder, Nanos now_ns, size_t begin, size_t end,
                    uint32_t* failures);
  std::timed_mutex writing_;  // held while a file is waited for; before the other
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;  // in the order in which they came, those of the folder first
  uint64_t bytes_ = 0;
  uint64_t refused_ = 0, said_ = 0;  // formats; of these, how many the log knows
  size_t next_ = 0;                  // under writing_: the next keep() begins there
  LogLimit unkept_log_{60 * kSecond}, full_log_{60 * kSecond};  // under writing_
};

}  // namespace varve
