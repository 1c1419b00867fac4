// The miniature homes of the session tests.
#include <algorithm>
#include <cstring>

#include "tests/server/session/session_world.h"

namespace varve::test {

namespace {

constexpr uint64_t kArenaBytes = 16 * kMiB;

TierOptions tier_options() {
  TierOptions options;
  options.limit_bytes[static_cast<uint8_t>(Budget::kPush)] = kArenaBytes;
  options.blocks_max = 64;
  return options;
}

}  // namespace

struct FakeHome::Push {
  BlockId block;
  Attempt attempt;
  const SessionFormat* format = nullptr;
  TierBlock* tier_block = nullptr;
  uint64_t session = 0;
};

struct FakeHome::Pull {
  FakeHome* home = nullptr;
  PullPart* part = nullptr;
  struct Item {
    uint32_t position = 0, extent = 0;
  };
  std::vector<Item> items;  // layer-major
  size_t next = 0;          // first item without credit
  size_t window_end = 0;
  CreditAsk ask;
  bool asking = false;
  uint64_t credit = 0;  // of the window, not posted yet
  Status failure;
  std::vector<std::unique_ptr<DataSend>> sends;  // out and to come
  std::vector<std::unique_ptr<std::vector<std::byte>>> payloads;
  std::vector<std::unique_ptr<LostNote>> notes;
  size_t posted = 0;
  uint32_t out = 0, notes_out = 0;
};

FakeHome::FakeHome(World& world, uint32_t shard)
    : world_(world),
      shard_(shard),
      reactor_(world.clock, nullptr, ReactorOptions{shard + 1}),
      memory_(kArenaBytes + kPageBytes),
      arena_([this] {
        auto at = reinterpret_cast<uintptr_t>(memory_.data());
        at = round_up(at, kPageBytes);
        return std::make_unique<Arena>(ByteSpan(reinterpret_cast<std::byte*>(at), kArenaBytes));
      }()),
      tier_(*arena_, tier_options()) {}

FakeHome::~FakeHome() = default;

Index& FakeHome::index() {
  std::abort();
}
flash::Flash& FakeHome::flash() {
  std::abort();
}

bool FakeHome::at_rest() const {
  return held_.empty() && pushes_.empty() && pulls_.empty() && fences_waiting_.empty() &&
         arena_->free_pages() == arena_->page_count();
}

void FakeHome::submit(Part& part) {
  part.home = this;
  part_domains.insert({part.kind, part.domain});
  part.message.owner = &part;
  part.message.deliver = [](Message& message) {
    auto& arrived = *static_cast<Part*>(message.owner);
    static_cast<FakeHome*>(arrived.home)->deliver(arrived);
  };
  reactor_.post(part.message);
}

void FakeHome::back(Part& part, Status status) {
  part.status = status;
  part.message.deliver = [](Message& message) {
    auto& returned = *static_cast<Part*>(message.owner);
    returned.on_back(returned);
  };
  part.session_reactor->post(part.message);
}

void FakeHome::release_held() {
  hold = false;
  std::vector<Part*> held;
  held.swap(held_);
  for (Part* part : held)
    deliver(*part);
}

void FakeHome::deliver(Part& part) {
  if (hold && part.kind == hold_kind) return held_.push_back(&part);
  if (!fail_next.ok()) {
    const Status status = fail_next;
    fail_next = Status();
    if (drop_failed && part.kind == Part::Kind::kCommit)
      drop_push(static_cast<CommitPart&>(part).push);
    return back(part, status);
  }
  switch (part.kind) {
    case Part::Kind::kMatch:
      return match(static_cast<MatchPart&>(part));
    case Part::Kind::kReserve:
      return reserve(static_cast<ReservePart&>(part));
    case Part::Kind::kCommit:
      return commit(static_cast<CommitPart&>(part));
    case Part::Kind::kPull:
      return pull(static_cast<PullPart&>(part));
    case Part::Kind::kRelease: {
      auto& release = static_cast<ReleasePart&>(part);
      ++releases;
      if (release.keep_below == 0) {
        leases.erase(release.lease);
      } else {
        leases[release.lease] = release.keep_below;
      }
      return back(part, {});
    }
    case Part::Kind::kRenew: {
      auto& renew = static_cast<RenewPart&>(part);
      renewed_ms.push_back(renew.lease_ms);
      const bool live = leases.count(renew.lease) > 0 && !lease_gone;
      return back(part, live ? Status() : Status::timed_out("the lease is over"));
    }
    case Part::Kind::kFence:
      return fence(static_cast<FencePart&>(part));
    case Part::Kind::kAbort: {
      ++aborts;
      drop_push(static_cast<AbortPart&>(part).push);
      return back(part, {});
    }
    case Part::Kind::kPurge: {
      auto& purge = static_cast<PurgePart&>(part);
      if (purge.what == wire::PurgeKind::kBlocks) {
        for (uint32_t i = purge.begin; i < purge.end; ++i) {
          const BaseId& id = purge.request->ids[purge.request->positions[i]];
          purge.blocks += known.erase(id);
          purged.insert(id);
        }
      } else if (purge.raise) {
        ++raises;
        purge.generation = raises;
        purge.rows = {{.domain = 1, .lineage = purge.lineage, .lineage_generation = raises}};
      } else {
        ++walks;
        rows = purge.rows;
        purge.blocks = known.size();
        known.clear();
      }
      purge.bytes = purge.blocks * 1000;
      purge.erased_ns = purge.blocks == 0 ? 0 : kSecond + shard_;
      return back(part, {});
    }
    case Part::Kind::kGone:
      ++gone;
      leases.clear();  // these tests have one session where they look at this
      return back(part, {});
  }
}

void FakeHome::drop_push(PushOp* push) {
  const auto at = std::find_if(pushes_.begin(), pushes_.end(), [push](const auto& held) {
    return static_cast<void*>(held.get()) == static_cast<void*>(push);
  });
  VARVE_ASSERT(at != pushes_.end());
  // Poison: a receive or a send that is still in flight in a page given back would be seen.
  TierBlock& block = *(*at)->tier_block;
  for (uint32_t e = 0; e < block.extent_count; ++e) {
    const Slab& slab = tier_.extent(block, e);
    for (uint64_t offset = 0; offset < bytes_of(slab.page_count); offset += kPageBytes)
      std::memset(arena_->byte_at(slab, offset), 0xee, kPageBytes);
  }
  tier_.unpin(*(*at)->tier_block);
  tier_.forget(*(*at)->tier_block);
  pushes_.erase(at);
}

void FakeHome::match(MatchPart& part) {
  bool missed = false;
  for (uint32_t i = part.begin; i < part.end; ++i) {
    const uint32_t position = part.request->positions[i];
    const auto at = known.find(part.request->ids[position]);
    part.tiers[position] = at == known.end() ? wire::TierKind::kNone : at->second;
    if (at == known.end()) missed = true;
    if (!missed && part.lease_ms > 0 && part.lease == 0 && !leases_full) {
      part.lease = (uint64_t{shard_ + 1} << 32) | ++lease_last_;
      leases[part.lease] = ~uint64_t{0};
    }
  }
  part.recovering = recovering_;
  part.read_ns_estimate = read_ns_estimate;
  back(part, {});
}

void FakeHome::reserve(ReservePart& part) {
  uint32_t granted = 0;
  for (uint32_t i = part.begin; i < part.end; ++i) {
    const uint32_t position = part.request->positions[i];
    const BlockId block{part.request->ids[position], part.rank, part.domain};
    GrantLoan& loan = part.loans[position];
    const bool busy = std::any_of(pushes_.begin(), pushes_.end(),
                                  [&](const auto& push) { return push->block == block; });
    if (known.count(block.base) > 0) {
      loan.outcome = wire::ReserveOutcome::kExists;
    } else if (busy) {
      loan.outcome = wire::ReserveOutcome::kBusy;
    } else if (granted == part.grants_max) {
      loan.code = Code::kQuota;
    } else {
      const Attempt attempt{1, shard_, ++counter_};
      TierBlock* tier_block =
          tier_.grant(block, attempt, part.format->tables[part.rank], Budget::kPush);
      if (tier_block == nullptr) {
        loan.code = Code::kOverloaded;
        continue;
      }
      tier_.pin(*tier_block);
      auto push = std::make_unique<Push>();
      *push = {block, attempt, part.format, tier_block, part.session};
      loan.outcome = wire::ReserveOutcome::kGranted;
      loan.attempt = attempt;
      loan.push = reinterpret_cast<PushOp*>(push.get());
      loan.block = tier_block;
      loan.tier = &tier_;
      pushes_.push_back(std::move(push));
      ++granted;
    }
  }
  back(part, {});
}

// Checks everything that the session promises about the slabs, then keeps the bytes.
void FakeHome::commit(CommitPart& part) {
  ++commits;
  const auto at = std::find_if(pushes_.begin(), pushes_.end(), [&](const auto& push) {
    return static_cast<void*>(push.get()) == static_cast<void*>(part.push);
  });
  VARVE_ASSERT(at != pushes_.end());
  const Push& push = **at;
  EXPECT_EQ(part.attempt, push.attempt);
  const ExtentTable& table = push.format->tables[push.block.rank];
  std::vector<std::vector<std::byte>> extents;
  for (uint32_t e = 0; e < table.count(); ++e) {
    ExtentEntry entry;
    std::memcpy(&entry, arena_->byte_at(push.tier_block->header, 256 + 32 * e), sizeof(entry));
    const Slab& slab = tier_.extent(*push.tier_block, e);
    EXPECT_EQ(entry.stored_bytes, table.bytes_at(e));
    std::vector<std::byte> bytes;
    for (uint64_t offset = 0; offset < bytes_of(slab.page_count); offset += kPageBytes) {
      const std::byte* page = arena_->byte_at(slab, offset);
      bytes.insert(bytes.end(), page, page + kPageBytes);
    }
    for (size_t i = entry.stored_bytes; i < bytes.size(); ++i)
      EXPECT_EQ(bytes[i], std::byte{0});
    bytes.resize(entry.stored_bytes);
    EXPECT_EQ(crc32c(checksum_seed(push.block, e, push.attempt).stored, bytes), entry.stored_crc);
    extents.push_back(std::move(bytes));
  }
  stored[push.block] = std::move(extents);
  attempts[push.block] = push.attempt;
  known[push.block.base] = wire::TierKind::kDram;
  drop_push(part.push);
  back(part, {});
}

void FakeHome::pull(PullPart& part) {
  ++pulls;
  pull_leases.push_back(part.lease);
  if (lease_gone && part.lease_required) {
    part.lease_over = true;
    part.credit_unused_bytes = 0;
    return back(part, Status::timed_out("the lease is over"));
  }
  auto pull = std::make_unique<Pull>();
  pull->home = this;
  pull->part = &part;
  for (uint32_t i = part.begin; i < part.end; ++i) {
    const uint32_t position = part.request->positions[i];
    const bool have = stored.count({part.request->ids[position], part.rank, part.domain}) > 0;
    part.codes[position] = static_cast<uint8_t>(have ? Code::kOk : Code::kUnavailable);
    const auto tier = known.find(part.request->ids[position]);
    if (have && tier != known.end()) part.tiers |= wire::tier_bit(tier->second);
  }
  pulls_.push_back(std::move(pull));
  list_items(*pulls_.back());
  pump(*pulls_.back());
}

// What is to be sent, and what is said of the rest.
void FakeHome::list_items(Pull& pull) {
  const PullPart& part = *pull.part;
  std::vector<Pull::Item> asked;
  if (part.wants != nullptr) {
    EXPECT_EQ(part.extent_end, 0u);
    wants_got.assign(part.wants, part.wants + part.want_count);
    for (const wire::Want& want : wants_got) {
      EXPECT_EQ(Shard::home(part.request->ids[want.block], kSlicesDefault,
                            static_cast<uint32_t>(world_.homes.size())),
                shard_);
      asked.push_back({want.block, want.extent});
    }
  }
  for (uint32_t e = part.extent_first; e < part.extent_end; ++e) {
    for (uint32_t i = part.begin; i < part.end; ++i)
      asked.push_back({part.request->positions[i], e});
  }
  for (const Pull::Item& item : asked) {
    if (part.codes[item.position] != 0) continue;
    if (lost_extents.count(item.extent) > 0) {
      note(pull, item.position, item.extent, wire::LostState::kLost);
      continue;
    }
    if (late_extents.count(item.extent) > 0) {
      note(pull, item.position, item.extent, wire::LostState::kLate);
    }
    pull.items.push_back(item);
  }
}

void FakeHome::note(Pull& pull, uint32_t position, uint32_t extent, wire::LostState state) {
  auto note = std::make_unique<LostNote>();
  note->lost.block = position;
  note->lost.extent = extent;
  note->lost.state = state;
  note->lost.code = static_cast<uint8_t>(Code::kIo);
  note->lost.entry.stored_bytes = note->lost.entry.decoded_bytes = 1000 + extent;
  note->lost.attempt = {1, shard_, 1};
  note->part = pull.part;
  note->owner = &pull;
  note->back = on_note;
  note->message.owner = note.get();
  note->message.deliver = pull.part->deliver_lost;
  ++notes_posted;
  ++pull.notes_out;
  pull.part->session_reactor->post(note->message);
  pull.notes.push_back(std::move(note));
}

void FakeHome::on_note(Message& message) {
  auto& note = *static_cast<LostNote*>(message.owner);
  auto& pull = *static_cast<Pull*>(note.owner);
  ++pull.home->notes_returned;
  --pull.notes_out;
  pull.home->pump(pull);
}

void FakeHome::fence(FencePart& part) {
  ++fences;
  fences_waiting_.push_back(&part);
  const auto at = std::find_if(pulls_.begin(), pulls_.end(), [&part](const auto& pull) {
    return pull->part == part.pull && pull->part->number == part.number;
  });
  if (at == pulls_.end()) return answer_fences(nullptr);
  fenced.insert({part.position, part.extent});
  answer_fences(at->get());
  pump(**at);
}

// Those of pulls that are over, and those whose extent is on no lane.
void FakeHome::answer_fences(Pull* pull) {
  std::vector<FencePart*> still;
  for (FencePart* part : fences_waiting_) {
    bool out = false;
    for (const auto& held : pulls_) {
      if (held->part != part->pull || held->part->number != part->number) continue;
      if (held.get() != pull) out = true;  // another's: not looked at now
      for (size_t i = 0; i < held->posted; ++i) {
        const DataSend& send = *held->sends[i];
        out = out || (send.owner != nullptr && send.data.block == part->position &&
                      send.data.extent == part->extent);
      }
    }
    if (out) {
      still.push_back(part);
    } else {
      back(*part, {});
    }
  }
  fences_waiting_ = still;
}

bool FakeHome::ask_window(Pull& pull) {
  const PullPart& part = *pull.part;
  uint64_t bytes = 0;
  pull.window_end = pull.next;
  while (pull.window_end < pull.items.size()) {
    const Pull::Item item = pull.items[pull.window_end];
    const uint64_t more =
        stored[{part.request->ids[item.position], part.rank, part.domain}][item.extent].size();
    if (bytes > 0 && bytes + more > window_bytes) break;
    bytes += more;
    ++pull.window_end;
  }
  if (bytes == 0) return false;
  pull.ask.bytes = bytes;
  pull.ask.wanted_ns = part.first_wanted_ns;
  pull.ask.part = pull.part;
  pull.ask.owner = &pull;
  pull.ask.back = on_credit;
  pull.ask.message.owner = &pull.ask;
  pull.ask.message.deliver = part.deliver_credit;
  pull.asking = true;
  part.session_reactor->post(pull.ask.message);
  return true;
}

void FakeHome::on_credit(Message& message) {
  auto& ask = *static_cast<CreditAsk*>(message.owner);
  auto& pull = *static_cast<Pull*>(ask.owner);
  pull.asking = false;
  if (!ask.status.ok()) {
    pull.failure = ask.status;
  } else {
    pull.home->credit_order.push_back(ask.wanted_ns);
    pull.credit += ask.bytes;
    pull.home->send_window(pull);
  }
  pull.home->pump(pull);
}

void FakeHome::send_window(Pull& pull) {
  const PullPart& part = *pull.part;
  for (; pull.next < pull.window_end; ++pull.next) {
    const Pull::Item item = pull.items[pull.next];
    const BlockId block{part.request->ids[item.position], part.rank, part.domain};
    pull.payloads.push_back(std::make_unique<std::vector<std::byte>>(stored[block][item.extent]));
    std::vector<std::byte>& bytes = *pull.payloads.back();
    for (uint32_t offset = 0; offset < bytes.size(); offset += kPayloadBytesMax) {
      auto send = std::make_unique<DataSend>();
      const size_t piece = std::min<size_t>(kPayloadBytesMax, bytes.size() - offset);
      send->request.payload[0] = {bytes.data() + offset, piece};
      send->request.payload_count = 1;
      send->data.block = item.position;
      send->data.extent = item.extent;
      send->data.offset = offset;
      send->data.entry.stored_bytes = static_cast<uint32_t>(bytes.size());
      send->data.entry.decoded_bytes = send->data.entry.stored_bytes;
      send->data.attempt = attempts.count(block) > 0 ? attempts[block] : Attempt{1, shard_, 1};
      const auto tier = known.find(block.base);
      send->from_dram = tier == known.end() || tier->second != wire::TierKind::kFlash;
      send->part = pull.part;
      send->owner = &pull;
      send->back = on_data;
      pull.sends.push_back(std::move(send));
    }
  }
}

void FakeHome::release_sends() {
  for (const auto& pull : pulls_) {
    if (pull->posted >= pull->sends.size()) continue;
    DataSend& send = *pull->sends[pull->posted++];
    if (fenced.count({send.data.block, send.data.extent}) > 0) {  // its credit is unused
      send.owner = nullptr;
      continue;
    }
    pull->credit -= send.request.payload_bytes();
    ++pull->out;
    ++sends_posted;
    send.message.owner = &send;
    send.message.deliver = pull->part->deliver_data;
    pull->part->session_reactor->post(send.message);
  }
}

void FakeHome::on_data(Message& message) {
  auto& send = *static_cast<DataSend*>(message.owner);
  auto& pull = *static_cast<Pull*>(send.owner);
  FakeHome& home = *pull.home;
  --pull.out;
  send.owner = nullptr;
  ++home.sends_returned;
  if (send.status.code() == Code::kCancelled) ++home.sends_cancelled;
  if (!send.status.ok()) {
    if (send.status.code() != Code::kCancelled) ++home.sends_failed;
    pull.failure = send.status;
    pull.part->codes[send.data.block] = static_cast<uint8_t>(send.status.code());
  }
  home.answer_fences(&pull);
  home.pump(pull);
}

void FakeHome::pump(Pull& pull) {
  const bool stopped = pull.part->cancelled.load(std::memory_order_relaxed) || !pull.failure.ok();
  if (!stopped && !send_slowly) {
    while (pull.posted < pull.sends.size())
      release_sends();
  }
  if (pull.asking || pull.out > 0 || pull.notes_out > 0) return;
  if (stopped) return finish_pull(pull);
  if (pull.posted < pull.sends.size()) return;  // sent slowly
  if (pull.next == pull.items.size() || !ask_window(pull)) finish_pull(pull);
}

void FakeHome::finish_pull(Pull& pull) {
  PullPart& part = *pull.part;
  part.credit_unused_bytes = pull.credit;
  const bool cancelled = part.cancelled.load(std::memory_order_relaxed);
  const bool whole = pull.next == pull.items.size() && pull.posted == pull.sends.size();
  for (uint32_t i = part.begin; i < part.end && !whole; ++i) {
    uint8_t& code = part.codes[part.request->positions[i]];
    if (code == 0) code = static_cast<uint8_t>(cancelled ? Code::kCancelled : pull.failure.code());
  }
  const auto at = std::find_if(pulls_.begin(), pulls_.end(),
                               [&](const auto& held) { return held.get() == &pull; });
  const std::unique_ptr<Pull> own = std::move(*at);
  pulls_.erase(at);
  answer_fences(nullptr);
  back(part, {});
}

}  // namespace varve::test
