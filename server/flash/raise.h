// SuperWriter: the superblock of one target written anew while its shards run (FORMAT 5.1), to the
// page that does not count, flushed.
//
// The boot generation and all else stay as prepare_target() left them; only the table of
// generations changes. One of all shards' writers is used in a boot (see Raise).
#pragma once

#include "common/base/base.h"
#include "server/flash/catalog.h"
#include "server/flash/target.h"

namespace varve::flash {

class SuperWriter {
 public:
  explicit SuperWriter(Target& target);
  SuperWriter(const SuperWriter&) = delete;
  SuperWriter& operator=(const SuperWriter&) = delete;

  // Ends with on_done in a later turn; at once failed where the target is.
  void write(const Generations& rows);
  bool idle() const { return !busy_; }

  void (*on_done)(void* owner, Status status) = nullptr;
  void* owner = nullptr;

 private:
  void written(Status status);
  void ended(Status status);

  Target& target_;
  Superblock super_;  // the newest on the drive
  uint32_t page_;     // where that is
  Superblock next_;
  PageMemory memory_{1};
  iovec run_ = {};
  Transfer transfer_;
  FlushWaiter flush_;
  bool busy_ = false;
};

}  // namespace varve::flash
