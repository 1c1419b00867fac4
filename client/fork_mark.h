// ForkMark: whether this process is still the one that made it.
//
// Asked at the start of every call of the C door, some of which a scheduler makes in a loop: a page
// that the system empties in a child costs a load (0.2 ns), the number of the process a system call
// (110 ns). Where the system does not know of such pages it is the number. A child of vfork()
// shares all memory with its parent and counts as that. Thread rule: any thread.
#pragma once

namespace varve {

class ForkMark {
 public:
  enum class By : unsigned char { kPage, kNumber };
  explicit ForkMark(By by = By::kPage);  // kPage: where the system has it
  ~ForkMark();
  ForkMark(const ForkMark&) = delete;
  ForkMark& operator=(const ForkMark&) = delete;
  bool is_forked() const;
  By by() const { return page_ == nullptr ? By::kNumber : By::kPage; }

 private:
  const int pid_;
  volatile unsigned char* page_ = nullptr;  // its first byte: 1 in this process, 0 in a child
};

}  // namespace varve
