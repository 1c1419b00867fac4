// Pool: a fixed number of objects, made at start. An empty pool is back-pressure (nullptr), never
// an allocation. Objects are constructed once and reused; take/give do not run constructors.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/assert.h"

namespace varve {

template <class T>
class Pool {
 public:
  template <class... Args>
  explicit Pool(uint32_t capacity, Args&&... args) {
    objects_.reserve(capacity);
    free_.reserve(capacity);
    for (uint32_t i = 0; i < capacity; ++i)
      objects_.push_back(std::make_unique<T>(args...));
    for (uint32_t i = capacity; i > 0; --i)
      free_.push_back(objects_[i - 1].get());
  }
  T* take() {
    if (free_.empty()) return nullptr;
    T* object = free_.back();
    free_.pop_back();
    return object;
  }
  void give(T* object) {
    VARVE_ASSERT(object != nullptr);
    VARVE_ASSERT(free_.size() < objects_.size());
    free_.push_back(object);
  }
  uint32_t capacity() const { return static_cast<uint32_t>(objects_.size()); }
  uint32_t available() const { return static_cast<uint32_t>(free_.size()); }
  uint32_t used() const { return capacity() - available(); }
  // All objects, in or out: for start-up wiring and for leak checks.
  const std::vector<std::unique_ptr<T>>& all() const { return objects_; }

 private:
  std::vector<std::unique_ptr<T>> objects_;
  std::vector<T*> free_;
};

}  // namespace varve
