// local_file: the files of this machine that put and get work with: one that is read, and must not
// change meanwhile, and one that is made, whole or not at all.
//
// A file goes through one piece of memory, a window at a time. The first window begins with a head
// that is not of the file; so offsets in the file lie a head before those in the windows.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/base/base.h"
#include "tools/kvctl/outcome.h"

namespace varve::kvctl {

struct WindowShape {
  uint64_t window_bytes = 0;
  uint64_t head_bytes = 0;  // at the beginning of window 0
};

// What of a file lies in one window.
struct Piece {
  uint64_t in_window = 0, in_file = 0, bytes = 0;
};
Piece piece_of(const WindowShape& shape, uint64_t window, uint64_t file_bytes);
uint64_t windows_of(const WindowShape& shape, uint64_t file_bytes);  // at least one

class SourceFile {
 public:
  SourceFile(std::string name, WindowShape shape) : name_(std::move(name)), shape_(shape) {}
  ~SourceFile();
  SourceFile(const SourceFile&) = delete;
  SourceFile& operator=(const SourceFile&) = delete;

  Outcome open(uint64_t bytes_max);
  uint64_t bytes() const { return bytes_; }
  // Reads all of it through `window`, and remembers what each window was.
  Outcome hash(ByteSpan window, Digest* key);
  // Window n again, with zeros around the content; refused unless it is what hash() read.
  Outcome read(uint64_t n, ByteSpan window) const;

 private:
  Outcome read_piece(uint64_t n, ByteSpan window) const;

  const std::string name_;
  const WindowShape shape_;
  int fd_ = -1;
  uint64_t bytes_ = 0;
  std::vector<Digest> seen_;  // of the pieces
};

// Whether a file that is there already is replaced.
enum class Replace { kNo, kYes };

// A file without a name until it is whole, so that neither a failure nor a signal leaves it behind;
// where the file system has no such files it has another name beside the one that it gets.
class NewFile {
 public:
  NewFile(std::string name, Replace replace) : name_(std::move(name)), replace_(replace) {}
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  // What is there already and may not, or cannot, be replaced is refused; again when it is
  // finished.
  Outcome check() const;
  Outcome open();
  Outcome write(uint64_t offset, ConstByteSpan bytes);
  // From now on it is there, on the drive and under its name.
  Outcome finish();

 private:
  Outcome failed(int error) const;
  mode_t final_mode() const;
  int replace_what_is_there();  // 0, or the errno
  int link_as(const std::string& name) const;

  const std::string name_;
  const Replace replace_;
  std::string beside_;  // its other name; empty = none now
  int fd_ = -1;
};

}  // namespace varve::kvctl
