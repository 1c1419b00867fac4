// A node that is none: it answers what a test told it to, and remembers what it was asked.
#pragma once

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "server/control/control.h"

namespace varve::control {

inline Digest digest_with(uint8_t first) {
  Digest digest;
  digest.bytes.fill(std::byte{7});
  digest.bytes[0] = std::byte{first};
  return digest;
}

inline Format small_format(const std::string& lineage = "main") {
  Format format;
  format.model = digest_with(1);
  format.lineage = lineage;
  format.ranks = {{{LayerKind::kFull, 4096}, {LayerKind::kSliding, 2048}}};
  format.extras = {{"engine", "x"}};
  return format;
}

class FakeIngress : public Ingress {
 public:
  // ---- what it answers
  NodeStatus node;
  std::vector<Policy> policy_rows;
  std::vector<Tier> tier_rows;
  std::vector<Target> target_rows;
  std::vector<FormatRow> format_rows;
  Page<Hold> hold_page;
  Page<Session> session_page;
  Found found;
  Purged purged;
  Code refusal = Code::kOk;  // not kOk: every call that may be refused is
  Refusal::Kind refusal_kind = Refusal::Kind::kByCode;
  void (*breaks)() = nullptr;  // status() calls it; it throws

  // ---- what it was asked
  std::vector<std::string> asked;
  PurgeAsk purge_ask;
  std::string find_domain;
  Nanos limit_ns = 0;
  uint64_t session = 0;
  PageAsk page;

  // ---- waiting: find() waits while held, within its limit and until close()
  void hold() {
    const std::lock_guard<std::mutex> lock(mutex_);
    held_ = true;
  }
  void let_go() {
    const std::lock_guard<std::mutex> lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }
  void wait_for_waiting(uint32_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ == count; });
  }

  NodeStatus status() override {
    note("status");
    if (breaks != nullptr) breaks();
    return node;
  }
  Answer<Nanos> drain() override { return answer("drain", Nanos{5 * kSecond}); }
  std::vector<Policy> policies() override { return policy_rows; }
  Answer<PolicyChange> policy_set(const std::string& name, const std::string& value,
                                  Nanos limit) override {
    limit_ns = limit;
    return answer("policy " + name + "=" + value, PolicyChange{{name, value, "1", "", ""}, "1"});
  }
  std::vector<Tier> tiers() override { return tier_rows; }
  std::vector<Target> targets() override { return target_rows; }
  Answer<Target> target_drain(const TargetName& name, Nanos) override {
    return answer("drain " + text(name), target(name));
  }
  Answer<Target> target_undrain(const TargetName& name, Nanos) override {
    return answer("undrain " + text(name), target(name));
  }
  Answer<Target> target_fail(const TargetName& name, Force force, Nanos) override {
    return answer("fail " + text(name) + (force == Force::kYes ? " force" : ""), target(name));
  }
  Answer<Target> target_replace(const TargetName& name, const std::string& path, Nanos) override {
    return answer("replace " + text(name) + " " + path, target(name));
  }
  Answer<ScrubBegun> scrub(const std::vector<uint32_t>& targets, Nanos) override {
    std::string of = "scrub";
    for (const uint32_t target : targets)
      of += " " + std::to_string(target);
    return answer(of, ScrubBegun{3, 1});
  }
  Answer<Page<Domain>> domains(const PageAsk& ask, Nanos) override {
    page = ask;
    Page<Domain> all;
    all.rows.push_back({"default", 1, 2, true, 3, 0, 4096, 8192, 5});
    return answer("domains", all);
  }
  Answer<DomainToken> domain_create(const std::string& name, uint64_t quota_bytes, Nanos) override {
    return answer("create " + name + (quota_bytes == 0 ? "" : " " + std::to_string(quota_bytes)),
                  DomainToken{{name, 2, 0, true, 0, 0, 0, 0, 0}, "secret"});
  }
  Answer<DomainToken> domain_rotate(const std::string& name, Nanos) override {
    return answer("rotate " + name, DomainToken{{name, 2, 0, true, 0, 0, 0, 0, 0}, "other"});
  }
  Answer<Purged> domain_drop(const std::string& name, Nanos) override {
    return answer("drop " + name, purged);
  }
  Answer<Registered> format_register(const Format& format, Nanos) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    asked.push_back("register " + format.lineage);
    if (refusal != Code::kOk) return Refusal{refusal, refusal_kind, "the node says no"};
    return Registered{format.fingerprint(), false, true};
  }
  Page<FormatRow> formats(const PageAsk& ask) override {
    page = ask;
    return {format_rows, 0};
  }
  Answer<FormatRow> format(ConstByteSpan begin) override {
    for (const FormatRow& row : format_rows) {
      if (std::memcmp(row.fingerprint.bytes.data(), begin.data(), begin.size()) == 0) return row;
    }
    return Refusal::not_found("no format begins so");
  }
  Answer<Found> find(const FindAsk& ask, Nanos limit) override {
    std::unique_lock<std::mutex> lock(mutex_);
    find_domain = ask.domain;
    limit_ns = limit;
    ++waiting_;
    changed_.notify_all();
    changed_.wait_for(lock, std::chrono::nanoseconds(limit), [this] { return !held_ || closed_; });
    --waiting_;
    changed_.notify_all();
    if (closed_) return Refusal::of(Code::kUnavailable, "the node stops");
    if (held_) return Refusal::of(Code::kTimedOut, "the core did not answer in time");
    if (refusal != Code::kOk) return Refusal{refusal, refusal_kind, "the node says no"};
    return found;
  }
  Answer<Matched> match(const MatchAsk& ask, Nanos) override {
    Matched matched;
    matched.length = 1;
    matched.tiers.assign(ask.ids.size(), TierKind::kFlash);
    const std::string of = ask.domain == "default" ? "" : " in " + ask.domain;
    return answer(
        "match " + std::to_string(ask.ids.size()) + " of " + std::to_string(ask.rank_count) + of,
        matched);
  }
  Answer<Purged> purge(const PurgeAsk& ask, Nanos limit) override {
    purge_ask = ask;
    limit_ns = limit;
    return answer("purge", purged);
  }
  Answer<Page<Hold>> holds(const PageAsk& ask, Nanos) override {
    page = ask;
    return answer("holds", hold_page);
  }
  Answer<Page<Session>> sessions(const PageAsk& ask, Nanos) override {
    page = ask;
    return answer("sessions", session_page);
  }
  Answer<bool> session_close(uint64_t id, Nanos) override {
    session = id;
    return answer("close", true);
  }
  void close() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  void note(std::string what) {
    const std::lock_guard<std::mutex> lock(mutex_);
    asked.push_back(std::move(what));
  }
  template <class T>
  Answer<T> answer(std::string what, T value) {
    note(std::move(what));
    if (refusal != Code::kOk) return Refusal{refusal, refusal_kind, "the node says no"};
    return value;
  }
  static std::string text(const TargetName& name) {
    return std::to_string(name.index) + (name.has_uuid ? " " + to_hex(name.uuid) : "");
  }
  static Target target(const TargetName& name) {
    Target target;
    target.index = name.index;
    target.state = TargetState::kDraining;
    return target;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false, closed_ = false;
  uint32_t waiting_ = 0;
};

}  // namespace varve::control
