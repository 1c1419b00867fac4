// Workers take the first request that may begin; one lock, far from anything that is measured.
#include "tools/kvbench/load.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "common/base/base.h"

namespace varve::kvbench {

namespace {

class Load {
 public:
  Load(const LoadOptions& options, const std::vector<LoadRequest>& requests, Pacer& pacer,
       LoadServer& server)
      : options_(options),
        requests_(requests),
        pacer_(pacer),
        server_(server),
        begin_ns_(pacer.now_ns()),
        times_(requests.size()),
        taken_(requests.size(), false) {}

  void work(uint32_t worker) {
    uint32_t index = 0;
    while (take(worker, index)) {
      LoadTime& time = times_[index];
      const Nanos due_ns = begin_ns_ + requests_[index].due_ns;
      if (options_.loop == Loop::kOpen) pacer_.wait_until(due_ns);
      time.began_ns = pacer_.now_ns();
      time.origin_ns = options_.loop == Loop::kOpen ? due_ns : time.began_ns;
      server_.serve(worker, index, time.origin_ns);
      time.ended_ns = pacer_.now_ns();
      give_back(index);
    }
  }
  std::vector<LoadTime> take_times() { return std::move(times_); }

 private:
  // False: none is left for this worker.
  bool take(uint32_t worker, uint32_t& index) {
    std::unique_lock lock(mutex_);
    while (true) {
      while (first_ < taken_.size() && taken_[first_])
        ++first_;
      bool is_left = false;
      for (uint32_t i = first_; i < taken_.size(); ++i) {
        const bool ours = options_.take == Take::kNext || i % options_.workers == worker;
        if (taken_[i] || !ours) continue;
        is_left = true;
        if (is_held(requests_[i].session)) continue;
        taken_[i] = true;
        if (requests_[i].session != kNoLoadSession) busy_.insert(requests_[i].session);
        index = i;
        return true;
      }
      if (!is_left) return false;
      freed_.wait(lock);  // the session of each that is left is being served by another worker
    }
  }
  bool is_held(uint32_t session) const {
    return options_.loop == Loop::kClosed && session != kNoLoadSession && busy_.count(session) > 0;
  }
  void give_back(uint32_t index) {
    const std::lock_guard lock(mutex_);
    if (options_.loop == Loop::kOpen || requests_[index].session == kNoLoadSession) return;
    busy_.erase(requests_[index].session);
    freed_.notify_all();
  }

  const LoadOptions options_;
  const std::vector<LoadRequest>& requests_;
  Pacer& pacer_;
  LoadServer& server_;
  const Nanos begin_ns_;
  std::vector<LoadTime> times_;
  std::mutex mutex_;  // of all that follows
  std::condition_variable freed_;
  std::vector<bool> taken_;
  uint32_t first_ = 0;       // nothing before it is left
  std::set<uint32_t> busy_;  // sessions that are being served
};

}  // namespace

void SystemPacer::wait_until(Nanos t) {
  const Nanos now = clock_.now_ns();
  if (t > now) std::this_thread::sleep_for(std::chrono::nanoseconds(t - now));
}

std::vector<LoadTime> run_load(const LoadOptions& options, const std::vector<LoadRequest>& requests,
                               Pacer& pacer, LoadServer& server) {
  VARVE_ASSERT(options.workers >= 1 && options.workers <= kWorkersMax, options.workers);
  Load load(options, requests, pacer, server);
  std::vector<std::thread> threads;
  for (uint32_t worker = 1; worker < options.workers; ++worker)
    threads.emplace_back([&load, worker] { load.work(worker); });
  load.work(0);
  for (std::thread& thread : threads)
    thread.join();
  return load.take_times();
}

}  // namespace varve::kvbench
