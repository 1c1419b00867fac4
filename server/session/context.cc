// The pools and counters of all sessions, and how a part of a session speaks and fails.
#include "server/session/context.h"

#include <cstdio>
#include <string>

#include "server/session/fence.h"
#include "server/session/follow.h"
#include "server/session/formats.h"
#include "server/session/grants.h"
#include "server/session/holds.h"
#include "server/session/lane.h"
#include "server/session/leases.h"
#include "server/session/purge.h"
#include "server/session/requests.h"

namespace varve {

namespace {

constexpr uint32_t kFingerprintShown = 8;  // bytes: enough to tell formats apart in a log

}  // namespace

const char* malformed_name(Malformed kind) {
  static constexpr const char* kNames[kMalformedKinds] = {"frame",  "lane",   "state",
                                                          "extent", "credit", "payload"};
  return kNames[static_cast<uint8_t>(kind)];
}

const char* discarded_name(Discarded kind) {
  static constexpr const char* kNames[kDiscardedKinds] = {"unknown", "foreign", "failed"};
  return kNames[static_cast<uint8_t>(kind)];
}

const char* slow_name(Slow kind) {
  static constexpr const char* kNames[kSlowKinds] = {"extent", "data"};
  return kNames[static_cast<uint8_t>(kind)];
}

SessionContext::SessionContext(Reactor& session_reactor, const SessionOptions& session_options,
                               std::vector<Shard*> home_shards)
    : reactor(session_reactor),
      options(session_options),
      shards(std::move(home_shards)),
      head_buffer(kHeadBytesMax) {
  const auto shard_count = static_cast<uint32_t>(shards.size());
  formats = std::make_unique<FormatTable>(
      options.formats_max, options.formats_bytes_max, options.scheme,
      BlockLimits{options.fragment_pages_max, options.push_bytes_max});
  format_counts.reserve(options.formats_max + 1);
  matches = std::make_unique<DomainPool<PendingMatch>>(options.matches_sum_max, shard_count);
  reserves = std::make_unique<DomainPool<PendingReserve>>(options.reserves_sum_max, shard_count);
  pulls = std::make_unique<DomainPool<PendingPull>>(options.pulls_sum_max, shard_count);
  grants = std::make_unique<DomainPool<Grant>>(options.grants_sum_max);
  leases = std::make_unique<DomainPool<SessionLease>>(options.leases_sum_max, shard_count);
  fences = std::make_unique<DomainPool<PendingFence>>(options.fences_sum_max);
  // The share of each domain, and of those before there were so many, and of the operator.
  VARVE_ASSERT(options.purges_sum_max > 1, options.purges_sum_max);
  const uint32_t purges_max = kNodeDomainsMax + 2 * options.purges_sum_max;
  purges = std::make_unique<Pool<PendingPurge>>(purges_max, shard_count);
  purges_waiting.reserve(purges_max);
  follows = std::make_unique<DomainPool<Follow>>(options.follows_sum_max, shard_count);
  lost_rows.reserve(wire::kLostMax);
  hold_rows.reserve(kHoldRowsMax + 1);
  held.reserve(kHoldRowsMax);
  domains_set(options.domains);
}

SessionContext::~SessionContext() = default;

void SessionContext::domains_set(Domains now) {
  domains = std::move(now);
  formats->domains_set(static_cast<uint32_t>(domains.all().size()));
  matches->domains_set(domains);
  reserves->domains_set(domains);
  pulls->domains_set(domains);
  grants->domains_set(domains);
  leases->domains_set(domains);
  fences->domains_set(domains);
  follows->domains_set(domains);
  for (const Domain& domain : domains.all())
    domain_metrics.introduce(domain, metric_set);
}

void FormatNotes::note(const SessionFormat& format) {
  if (known_.size() >= kKnownMax || fresh_.size() >= kFreshMax) return;  // when it comes again
  if (!known_.insert(format.fingerprint).second) return;
  fresh_.push_back(format.format.encode());
}

void FormatNotes::known(const Digest& fingerprint) {
  if (known_.size() < kKnownMax) known_.insert(fingerprint);
}

void FormatNotes::take(std::vector<std::vector<std::byte>>* out) {
  VARVE_ASSERT(out != nullptr && out->empty());
  out->swap(fresh_);
}

FormatCounts& SessionContext::counts_of(const Digest& fingerprint) {
  char hex[2 * kFingerprintShown + 1];
  for (uint32_t i = 0; i < kFingerprintShown; ++i) {
    std::snprintf(hex + 2 * i, 3, "%02x", static_cast<unsigned>(fingerprint.bytes[i]));
  }
  std::string label = format_counts.size() < options.formats_max ? hex : "other";
  for (const auto& known : format_counts) {
    if (known->label == label || known->label == hex) return *known;
  }
  VARVE_ASSERT(format_counts.size() <= options.formats_max, format_counts.size());
  format_counts.push_back(std::make_unique<FormatCounts>());
  FormatCounts& counts = *format_counts.back();
  counts.label = std::move(label);
  if (metric_set == nullptr) return counts;
  const std::string labels = "format=\"" + counts.label + "\"";
  metric_set->add(
      {"varve_format_matched_ids_total", labels, "Ids that MATCH asked for, by format."},
      &counts.ids);
  metric_set->add({"varve_format_hit_ids_total", labels, "Ids that MATCH found, by format."},
                  &counts.hits);
  metric_set->add({"varve_format_pushed_blocks_total", labels, "Blocks committed, by format."},
                  &counts.pushed_blocks);
  return counts;
}

void SessionScope::reply(ConstByteSpan head) {
  if (ending || urgent == nullptr || urgent->closing()) return;  // on_lane_closed knows why
  if (!urgent->send_head(head))
    fail(Status::overloaded("the urgent lane is full: the client reads nothing"));
}

void SessionScope::fail(Status cause) {
  VARVE_ASSERT(!cause.ok());
  if (failure.ok()) failure = cause;
  context.reactor.make_ready(task);
}

void SessionScope::fail_malformed(Malformed kind, Status cause) {
  if (failure.ok() && !ending) context.metrics.malformed[static_cast<uint8_t>(kind)].add();
  fail(cause);
}

void SessionScope::fail_slow(Slow kind, Status cause) {
  VARVE_ASSERT(cause.code() == Code::kTimedOut);
  if (failure.ok() && !ending) context.metrics.slow[static_cast<uint8_t>(kind)].add();
  fail(cause);
}

namespace {

std::string label(const char* name, const char* value) {
  return std::string(name) + "=\"" + value + "\"";
}

void add_by_code(MetricSet& metrics, const char* name, const char* help,
                 const Counter (&counters)[kCodeCount]) {
  for (uint8_t code = 0; code < kCodeCount; ++code) {
    metrics.add({name, label("code", code_name(static_cast<Code>(code))), help}, &counters[code]);
  }
}

}  // namespace

void SessionMetrics::register_in(MetricSet& set) {
  register_sessions(set);
  register_requests(set);
  register_pulls(set);
  register_matches(set);
  register_times(set);
}

void SessionMetrics::register_sessions(MetricSet& set) {
  set.add({"varve_sessions", "", "Sessions open."}, &sessions);
  set.add({"varve_session_lanes", "", "Lanes open, unnamed ones included."}, &lanes);
  set.add({"varve_session_formats", "", "Formats registered."}, &formats);
  set.add({"varve_session_grants", "", "Attempts lent to sessions."}, &grants);
  set.add({"varve_session_leases", "", "Leases held by sessions."}, &leases);
  set.add({"varve_session_requests", "", "Matches, reserves and pulls in flight."}, &requests);
  set.add({"varve_session_opened_total", "", "Sessions opened."}, &opened);
  add_by_code(set, "varve_session_closed_total", "Sessions closed, by cause.", closed);
  set.add({"varve_session_links_refused_total", "", "Connections dropped before HELLO."},
          &links_refused);
  add_by_code(set, "varve_session_hellos_refused_total", "Lanes refused at HELLO.", hellos_refused);
  for (uint8_t kind = 0; kind < kMalformedKinds; ++kind) {
    set.add({"varve_session_malformed_total",
             label("reason", malformed_name(static_cast<Malformed>(kind))),
             "Frames that closed their session."},
            &malformed[kind]);
  }
  for (uint8_t kind = 0; kind < kSlowKinds; ++kind) {
    set.add({"varve_session_slow_total", label("reason", slow_name(static_cast<Slow>(kind))),
             "Sessions dropped because a lane moved too little of what had to go."},
            &slow[kind]);
  }
  for (uint8_t kind = 0; kind < kDiscardedKinds; ++kind) {
    set.add({"varve_session_extents_discarded_total",
             label("reason", discarded_name(static_cast<Discarded>(kind))),
             "EXTENT frames whose payload nobody wanted."},
            &discarded_frames[kind]);
  }
  set.add({"varve_session_extent_bytes_discarded_total", "", "Payload of discarded EXTENT frames."},
          &discarded_bytes);
}

void SessionMetrics::register_requests(MetricSet& set) {
  const auto count = [&set](const char* kind, const Counter& counter) {
    set.add({"varve_session_requests_total", label("kind", kind), "Requests, by kind."}, &counter);
  };
  count("match", matches);
  count("release", releases);
  count("renew", renews);
  count("reserve", reserves);
  count("commit", commits);
  count("abort", aborts);
  count("pull", pulls);
  count("cancel", cancels);
  count("cancel_extent", fences);
  count("holds", holds);
  count("purge", purges);
  count("follow", follows);
  add_by_code(set, "varve_session_requests_refused_total",
              "Requests answered with a refusal by the session itself.", requests_refused);
  set.add({"varve_session_reservations_expired_total", "", "Attempts ended by their time."},
          &reservations_expired);
  set.add({"varve_session_leases_expired_total", "", "Leases ended by their time."},
          &leases_expired);
  set.add({"varve_session_leases_refused_total", "",
           "Matches with hits whose lease was not given: answered with lease 0."},
          &leases_refused);
  set.add({"varve_session_leases_renewed_total", "", "Leases that RENEW made last longer."},
          &leases_renewed);
  set.add(
      {"varve_session_corrupt_extents_total", "", "Pushed extents whose checksum did not hold."},
      &corrupt_extents);
  set.add({"varve_push_received_bytes_total", "", "Payload received into slabs."}, &pushed_bytes);
  set.add({"varve_session_purged_blocks_total", "", "Blocks that PURGED said became unreachable."},
          &purged_blocks);
}

void SessionMetrics::register_pulls(MetricSet& set) {
  add_by_code(set, "varve_follow_blocks_total", "Blocks of FOLLOW, by how they ended.",
              follow_blocks);
  set.add({"varve_follow_extents_total", "", "Extents sent from where they were received."},
          &follow_extents);
  set.add({"varve_follow_bytes_total", "", "Their bytes."}, &follow_bytes);
  set.add({"varve_follow_waits_total", "",
           "Commits and aborts that waited for frames on a follower's lane."},
          &follow_waits);
  set.add({"varve_pull_wants_total", "", "Single extents that pulls asked for."}, &wants);
  const auto lost = [&set](const char* state, const Counter& counter) {
    set.add(
        {"varve_session_lost_extents_total", label("state", state),
         "Extents named in LOST: not to be had, late, or of a pull that was stopped meanwhile."},
        &counter);
  };
  lost("lost", lost_extents);
  lost("late", late_extents);
  lost("dropped", lost_dropped);
  set.add({"varve_session_lost_frames_total", "", "LOST frames sent."}, &lost_frames);
  set.add({"varve_session_pulls_timed_out_total", "", "Pulls ended by their deadline."},
          &pulls_timed_out);
  set.add({"varve_pull_sent_bytes_total", "", "Payload handed to bulk lanes."}, &pulled_bytes);
  set.add({"varve_pull_credit_wait_seconds", "", "From asking for a window's credit to having it."},
          &credit_wait_ns);
}

void SessionMetrics::register_matches(MetricSet& set) {
  set.add({"varve_match_ids_total", "", "Base ids asked for."}, &match_ids);
  set.add({"varve_match_hits_total", label("tier", "dram"),
           "Ids of the leading run that every home has, by the slowest tier of their ranks."},
          &match_hits_dram);
  set.add({"varve_match_hits_total", label("tier", "flash"), "The same, on flash."},
          &match_hits_flash);
  set.add({"varve_match_misses_total", "", "Ids from the first miss on."}, &match_misses);
  const auto failed = [this](RequestOutcome outcome) {
    return &match_failed[static_cast<uint8_t>(outcome)];
  };
  set.add({"varve_match_refused_ids_total", "",
           "Ids of matches that were refused: by a limit, or because they cannot be."},
          failed(RequestOutcome::kRefused));
  for (const RequestOutcome outcome :
       {RequestOutcome::kError, RequestOutcome::kTimeout, RequestOutcome::kCancelled}) {
    set.add({"varve_match_failed_ids_total", label("outcome", outcome_name(outcome)),
             "Ids of matches that were taken, and not answered."},
            failed(outcome));
  }
}

void SessionMetrics::register_times(MetricSet& set) {
  const auto time = [&set](const char* kind, const Histogram& histogram) {
    set.add({"varve_session_request_seconds", label("kind", kind), "From frame to answer."},
            &histogram);
  };
  time("match", match_ns);
  time("reserve", reserve_ns);
  time("commit", commit_ns);
  time("pull", pull_ns);
  time("follow", follow_ns);
  time("renew", renew_ns);
  time("cancel", cancel_ns);
  time("cancel_extent", fence_ns);
  time("purge", purge_ns);
}

}  // namespace varve
