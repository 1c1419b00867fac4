// NodeIngress: what the node does for its control plane, on gRPC's threads.
//
// Numbers come from what main saw last; what only a core knows or does is a Question to it; the
// states of targets are changed under Node::mutex (N4), and their list under Node::list_mutex (N5).
// Calls that change a file go one after the other, so one that stands still holds up one of them,
// and the others for no longer than their limits; what needs no file (a target that is given up, a
// scrub, a policy) waits for none of them.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>

#include "server/node/node.h"
#include "server/node/question.h"

namespace varve {

struct Newcomer;

class NodeIngress final : public control::Ingress {
 public:
  explicit NodeIngress(Node& node);

  // status.cc
  control::NodeStatus status() override;
  std::vector<control::Tier> tiers() override;
  std::vector<control::Target> targets() override;

  // policy.cc
  std::vector<control::Policy> policies() override;
  control::Answer<control::PolicyChange> policy_set(const std::string& name,
                                                    const std::string& value,
                                                    Nanos limit_ns) override;

  // change.cc
  control::Answer<Nanos> drain() override;
  control::Answer<control::Target> target_drain(const control::TargetName& name,
                                                Nanos limit_ns) override;
  control::Answer<control::Target> target_undrain(const control::TargetName& name,
                                                  Nanos limit_ns) override;
  control::Answer<control::Target> target_fail(const control::TargetName& name,
                                               control::Force force, Nanos limit_ns) override;
  control::Answer<control::ScrubBegun> scrub(const std::vector<uint32_t>& targets,
                                             Nanos limit_ns) override;

  // replace.cc
  control::Answer<control::Target> target_replace(const control::TargetName& name,
                                                  const std::string& path, Nanos limit_ns) override;

  // domain.cc
  control::Answer<control::Page<control::Domain>> domains(const control::PageAsk& page,
                                                          Nanos limit_ns) override;
  control::Answer<control::DomainToken> domain_create(const std::string& name, uint64_t quota_bytes,
                                                      Nanos limit_ns) override;
  control::Answer<control::DomainToken> domain_rotate(const std::string& name,
                                                      Nanos limit_ns) override;
  control::Answer<control::Purged> domain_drop(const std::string& name, Nanos limit_ns) override;

  // ingress.cc
  control::Answer<control::Registered> format_register(const Format& format,
                                                       Nanos limit_ns) override;
  control::Page<control::FormatRow> formats(const control::PageAsk& page) override;
  control::Answer<control::FormatRow> format(ConstByteSpan fingerprint_begin) override;
  control::Answer<control::Found> find(const control::FindAsk& ask, Nanos limit_ns) override;
  control::Answer<control::Matched> match(const control::MatchAsk& ask, Nanos limit_ns) override;
  control::Answer<control::Purged> purge(const control::PurgeAsk& ask, Nanos limit_ns) override;
  control::Answer<control::Page<control::Hold>> holds(const control::PageAsk& page,
                                                      Nanos limit_ns) override;
  control::Answer<control::Page<control::Session>> sessions(const control::PageAsk& page,
                                                            Nanos limit_ns) override;
  control::Answer<bool> session_close(uint64_t session, Nanos limit_ns) override;
  void close() override { questions_.close(); }

 private:
  struct Until {  // of one call, whatever it does after another
    const Clock& clock;
    Nanos at_ns;
    Nanos left_ns() const {
      const Nanos now_ns = clock.now_ns();
      return now_ns < at_ns ? at_ns - now_ns : 0;
    }
  };
  Until until(Nanos limit_ns) const;
  // Asks one core, at once. T: see AtOnce.
  template <class T>
  control::Answer<T> ask(uint32_t shard, T asked, const Until& until) {
    Status why;
    std::unique_ptr<Question> answer =
        questions_.ask(*node_.threads[shard]->reactor,
                       std::make_unique<AtOnce<T>>(std::move(asked)), until.left_ns(), &why);
    if (answer == nullptr) return unanswered(shard, why);
    return std::move(static_cast<AtOnce<T>&>(*answer).what);
  }
  static control::Refusal unanswered(uint32_t shard, Status why);
  // A change of a file begins: nobody else's runs, and the node does not stop.
  control::Answer<std::unique_lock<std::timed_mutex>> begin_change(const Until& until);
  std::optional<control::Refusal> refuse_stopping();
  std::optional<control::Refusal> refuse_name(const control::TargetName& name) const;  // N4
  bool works(uint32_t target) const;                                                   // N4
  uint32_t working_without(uint32_t target) const;                                     // N4
  control::Target row(uint32_t target) const;                                          // N4
  control::FormatRow row(const FormatBook::Row& row);
  control::Answer<uint32_t> domain_id(const std::string& name) const;
  control::Answer<uint32_t> domain_id_seen(const Until& until);
  control::Refusal unmarked(const std::string& name, const Failure& failure);
  control::Answer<bool> tell_domains(const Until& until);
  control::Answer<control::Purged> purge_domain(uint32_t domain, const control::PurgeAsk& ask,
                                                Nanos limit_ns);
  Failure keep_draining(uint32_t target, Draining draining);  // N5
  control::Answer<control::Target> tell_draining(uint32_t target, Draining draining,
                                                 const Until& until);
  // Policies as they are now.
  struct Values {
    uint32_t repair_mb_per_s = 0, scrub_interval_s = 0, sibling_ms_max = 0;
    std::string log_level;
  };
  control::Answer<control::PolicyChange> policy_apply(const std::string& name, const Values& next,
                                                      const Until& until);
  std::optional<control::Refusal> tell_policy(const Until& until);
  std::optional<control::Refusal> fail_on_cores(uint32_t target, const Until& until);
  std::optional<control::Refusal> refuse_replace(const control::TargetName& name,
                                                 const std::string& path) const;  // N4
  std::optional<control::Refusal> vacate(uint32_t target, const Until& until);
  std::optional<control::Refusal> bring_in(const Newcomer& newcomer, uint64_t capacity_bytes,
                                           const Until& until);
  std::optional<control::Refusal> hand_over(uint32_t index, const Until& until);
  bool works_now(uint32_t target, const Until& until);  // for every core
  std::optional<control::Refusal> settle_in(uint32_t target, const Until& until);
  void rest();

  Node& node_;
  Questions questions_;
  std::timed_mutex change_;
  std::timed_mutex policy_;  // a change of a policy, until each core was told
  Values values_;            // under policy_, and read under node_.mutex
};

// N5, with a bound.
control::Answer<std::unique_lock<std::timed_mutex>> lock_list(Node& node, Nanos limit_ns);

// What a purge that was not done says for itself.
control::Refusal purge_refusal(Code code, control::PurgeKind kind);

LogLevel log_level_of(const std::string& name);

}  // namespace varve
