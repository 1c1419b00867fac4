// One lock, which is never held while a file is waited for.
#include "server/node/file_thread.h"

#include <chrono>

#include "server/host/host.h"

namespace varve {

FileThread::~FileThread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

bool FileThread::idle() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return work_ == nullptr;
}

void FileThread::begin(Work work, void* context) {
  VARVE_ASSERT(work != nullptr);
  const std::lock_guard<std::mutex> lock(mutex_);
  VARVE_ASSERT(work_ == nullptr);
  work_ = work;
  context_ = context;
  begun_ns_ = clock_.now_ns();
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
}

bool FileThread::rest(Nanos limit_ns) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, std::chrono::nanoseconds(limit_ns),
                           [this] { return work_ == nullptr; });
}

Nanos FileThread::under_way_ns() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return work_ == nullptr ? 0 : clock_.now_ns() - begun_ns_;
}

Nanos FileThread::age_ns() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return clock_.now_ns() - well_ns_;
}

void FileThread::run() {
  leave_stop_signals();
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return work_ != nullptr || ends_; });
    if (work_ == nullptr) return;
    lock.unlock();
    const bool well = work_(context_);
    lock.lock();
    if (well) well_ns_ = clock_.now_ns();
    work_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace varve
