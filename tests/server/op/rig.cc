// The rig of the op tests: see the header.
//
// Block n's bytes are a pure function of n and the extent, so that any mix-up of blocks, extents or
// offsets shows as wrong bytes.
#include "tests/server/op/rig.h"

#include <algorithm>
#include <cstring>

#include "common/erasure/erasure.h"

namespace varve {

namespace {

TierOptions tier_options(const RigOptions& o) {
  TierOptions t;
  t.limit_bytes[static_cast<uint32_t>(Budget::kPush)] = bytes_of(o.push_pages);
  t.limit_bytes[static_cast<uint32_t>(Budget::kPull)] = bytes_of(o.pull_pages);
  t.limit_bytes[static_cast<uint32_t>(Budget::kRepair)] = bytes_of(o.repair_pages);
  t.limit_bytes[static_cast<uint32_t>(Budget::kResident)] = bytes_of(o.resident_pages);
  t.blocks_max = o.blocks_max;
  return t;
}

ByteSpan aligned(std::vector<std::byte>& memory, uint32_t pages) {
  memory.resize(bytes_of(pages + 1), std::byte{0xEE});
  const auto address = reinterpret_cast<uintptr_t>(memory.data());
  const uint64_t skew = round_up(address, kPageBytes) - address;
  return ByteSpan(memory).subspan(skew, bytes_of(pages));
}

SessionFormat make_format(const RigOptions& o) {
  SessionFormat f;
  f.format.model.bytes[0] = std::byte{1};
  f.format.lineage = "test";
  std::vector<LayerSpec> layers;
  for (const uint32_t bytes : o.layer_bytes)
    layers.push_back({LayerKind::kFull, bytes});
  for (uint32_t r = 0; r < o.ranks; ++r)
    f.format.ranks.push_back(layers);
  f.fingerprint = f.format.fingerprint();
  f.lineage = 42;
  for (uint32_t r = 0; r < o.ranks; ++r)
    f.tables.push_back(*ExtentTable::of(layers, o.op.scheme));
  return f;
}

}  // namespace

Rig::Rig(RigOptions o)
    : options(o),
      reactor(clock, nullptr, ReactorOptions{}),
      arena(aligned(memory, o.arena_pages + o.repair_pages)),
      tier(arena, tier_options(o)),
      index(IndexOptions{
          .blocks_max = o.index_blocks_max, .scheme = o.op.scheme, .slice_count = o.op.slices}),
      eviction(make_leaf_first_lru(index.base_slots_max(), o.targets * o.op.slices)),
      admission(make_admit_all()),
      flash(reactor, o.targets, o.op.slices),
      format(make_format(o)) {
  loop_.rig = this;
  flash.user = &loop_;
  reactor.turn();  // reads the clock
  context = std::make_unique<OpContext>(OpContext{.reactor = reactor,
                                                  .index = index,
                                                  .tier = tier,
                                                  .flash = flash,
                                                  .eviction = *eviction,
                                                  .admission = *admission,
                                                  .options = o.op,
                                                  .metrics = {},
                                                  .gathered = {}});
  operations = std::make_unique<Operations>(*context);
}

Rig::~Rig() = default;

BaseId Rig::id(uint32_t n) const {
  Sha256 sha;
  sha.update(bytes_view(n));
  return sha.finish();
}

std::vector<std::byte> Rig::bytes_of_extent(uint32_t n, uint32_t e) const {
  std::vector<std::byte> bytes(table().bytes_at(e));
  if (e >= table().data_count()) {
    const Stripe stripe = table().stripes[table().stripe_at(e)];
    std::vector<std::vector<std::byte>> data, parity(options.op.scheme.m, bytes);
    for (uint32_t i = 0; i < stripe.count; ++i)
      data.push_back(bytes_of_extent(n, stripe.first + i));
    const Coder coder(options.op.scheme);
    for (uint64_t at = 0; at < bytes.size(); at += kColumnBytes) {
      std::vector<ConstByteSpan> sources(options.op.scheme.k);
      std::vector<ByteSpan> outputs;
      for (uint32_t i = 0; i < stripe.count; ++i) {
        const ConstByteSpan all(data[i]);
        if (at < all.size())
          sources[i] = all.subspan(at, std::min<uint64_t>(kColumnBytes, all.size() - at));
      }
      for (std::vector<std::byte>& p : parity)
        outputs.push_back(ByteSpan(p).subspan(at, std::min<uint64_t>(kColumnBytes, p.size() - at)));
      coder.run(sources, outputs);
    }
    return parity[(e - table().data_count()) % options.op.scheme.m];
  }
  Random random(uint64_t{domain - kDomainDefault} << 56 | uint64_t{n} << 32 | e);
  for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    const uint64_t word = random.next();
    std::memcpy(bytes.data() + i, &word, 8);
  }
  return bytes;
}

flash::Place Rig::place_of(const BlockId& id, uint32_t position) const {
  const std::optional<Located> located = index.find(id);
  VARVE_ASSERT(located.has_value(), position);
  return index.place_of(*located, position);
}

template <class SomePart>
void Rig::ask(SomePart& part) {
  bool back = false;
  part.session_reactor = &reactor;
  part.session = session;
  part.domain = domain;
  part.owner = &back;
  part.on_back = [](Part& p) { *static_cast<bool*>(p.owner) = true; };
  operations->begin(part);
  ASSERT_TRUE(run_until([&] { return back; })) << "the part did not come back";
}

void Rig::fill_request(RequestIds& request, const std::vector<uint32_t>& blocks) const {
  request.count = static_cast<uint32_t>(blocks.size());
  for (uint32_t i = 0; i < request.count; ++i) {
    request.ids[i] = id(blocks[i]);
    request.positions[i] = static_cast<uint16_t>(i);
  }
}

Rig::Reserved Rig::reserve(const std::vector<uint32_t>& blocks, uint32_t rank) {
  Reserved result;
  auto request = std::make_unique<RequestIds>();
  fill_request(*request, blocks);
  result.loans.resize(blocks.size());
  ReservePart part;
  part.request = request.get();
  part.end = request->count;
  part.format = &format;
  part.rank = rank;
  part.epoch = options.op.epoch;
  part.grants_max = 2048;
  part.domains = domains;
  part.loans = result.loans.data();
  ask(part);
  result.status = part.status;
  return result;
}

void Rig::fill(const GrantLoan& loan, uint32_t n) {
  TierBlock& block = *loan.block;
  for (uint32_t e = 0; e < block.extent_count; ++e) {
    const std::vector<std::byte> bytes = bytes_of_extent(n, e);
    std::vector<iovec> pieces(pages_of(bytes.size()));
    const uint32_t count = arena.pieces(tier.extent(block, e), 0, bytes.size(), pieces);
    uint64_t at = 0;
    ExtentDigest digest(checksum_seed(block.block, e, loan.attempt));
    for (uint32_t p = 0; p < count; ++p) {
      std::memcpy(pieces[p].iov_base, bytes.data() + at, pieces[p].iov_len);
      digest.update(ConstByteSpan(bytes).subspan(at, pieces[p].iov_len));
      at += pieces[p].iov_len;
    }
    const ExtentEntry entry{.stored_bytes = static_cast<uint32_t>(bytes.size()),
                            .decoded_bytes = static_cast<uint32_t>(bytes.size()),
                            .stripe = static_cast<uint16_t>(table().stripe_at(e)),
                            .stored_crc = digest.stored_crc(),
                            .decoded_xxh3 = digest.decoded_xxh3()};
    std::memcpy(arena.byte_at(block.header, 256 + 32 * e), &entry, sizeof(entry));
  }
}

Status Rig::commit(const GrantLoan& loan, wire::AckKind ack) {
  CommitPart part;
  part.push = loan.push;
  part.attempt = loan.attempt;
  part.epoch = options.op.epoch;
  part.ack = ack;
  ask(part);
  return part.status;
}

Status Rig::abort(const GrantLoan& loan) {
  AbortPart part;
  part.push = loan.push;
  part.attempt = loan.attempt;
  ask(part);
  return part.status;
}

void Rig::push(const std::vector<uint32_t>& blocks, uint32_t rank) {
  for (std::vector<uint32_t> left = blocks; !left.empty();) {
    const Reserved reserved = reserve(left, rank);
    ASSERT_TRUE(reserved.status.ok());
    ASSERT_EQ(reserved.loans[0].outcome, wire::ReserveOutcome::kGranted)
        << code_name(reserved.loans[0].code);
    std::vector<uint32_t> again;  // a session may not reserve all there is at once
    for (size_t i = 0; i < left.size(); ++i) {
      if (reserved.loans[i].outcome != wire::ReserveOutcome::kGranted) {
        again.push_back(left[i]);
        continue;
      }
      fill(reserved.loans[i], left[i]);
      ASSERT_TRUE(commit(reserved.loans[i]).ok());
    }
    left = again;
  }
  ASSERT_TRUE(run_until([&] { return operations->pushes_done(); }));
}

void Rig::drop_from_dram(uint32_t n, uint32_t rank) {
  const std::optional<Located> located = index.find(block(n, rank));
  ASSERT_TRUE(located.has_value());
  if (TierBlock* found = tier.find(located->block_slot)) tier.forget(*found);
}

void Rig::lose(uint32_t n, uint32_t position) {
  const std::optional<Located> located = index.find(block(n));
  ASSERT_TRUE(located.has_value() && located->has(position));
  operations->catalog().lost(block(n), index.place_of(*located, position), flash::DropReason::kRot);
}

uint32_t Rig::Matched::found() const {
  uint32_t n = 0;
  while (n < tiers.size() && tiers[n] != wire::TierKind::kNone)
    ++n;
  return n;
}

Rig::Matched Rig::match(const std::vector<uint32_t>& blocks, uint32_t lease_ms, wire::MatchOf of) {
  Matched result;
  auto request = std::make_unique<RequestIds>();
  fill_request(*request, blocks);
  result.tiers.resize(blocks.size());
  MatchPart part;
  part.request = request.get();
  part.end = request->count;
  part.rank_count = options.ranks;
  part.of = of;
  part.lease_ms = lease_ms;
  part.tiers = result.tiers.data();
  ask(part);
  result.lease = part.lease;
  return result;
}

void Rig::release(LeaseId lease, uint32_t keep_below) {
  ReleasePart part;
  part.lease = lease;
  part.keep_below = keep_below;
  ask(part);
}

void Rig::gone() {
  GonePart part;
  ask(part);
}

std::unique_ptr<Rig::Pull> Rig::make_pull(const std::vector<uint32_t>& blocks, uint32_t rank) {
  auto pull = std::make_unique<Pull>();
  pull->rig = this;
  fill_request(pull->request, blocks);
  pull->codes.assign(blocks.size(), 0xFF);
  PullPart& part = pull->part;
  part.session_reactor = &reactor;
  part.session = session;
  part.domain = domain;
  part.owner = pull.get();
  part.on_back = [](Part& p) { static_cast<Pull*>(p.owner)->back = true; };
  part.request = &pull->request;
  part.end = pull->request.count;
  part.format = &format;
  part.rank = rank;
  part.extent_end = static_cast<uint32_t>(table(rank).extents.size());
  part.first_wanted_ns = clock.now_ns();
  part.codes = pull->codes.data();
  part.deliver_data = &Rig::deliver_data;
  part.deliver_credit = &Rig::deliver_credit;
  part.deliver_lost = &Rig::deliver_lost;
  return pull;
}

std::unique_ptr<Rig::Pull> Rig::make_wants(const std::vector<uint32_t>& blocks,
                                           const std::vector<wire::Want>& wants) {
  std::unique_ptr<Pull> pull = make_pull(blocks);
  pull->wants = wants;
  pull->part.wants = pull->wants.data();
  pull->part.want_count = static_cast<uint32_t>(wants.size());
  pull->part.extent_end = 0;
  return pull;
}

void Rig::fence(Pull& pull, uint32_t block, uint32_t extent) {
  FencePart part;
  part.pull = &pull.part;
  part.number = pull.part.number;
  part.position = block;
  part.extent = extent;
  ask(part);
}

void Rig::expect_bytes(const Pull& pull, const std::vector<uint32_t>& blocks) const {
  for (uint32_t i = 0; i < blocks.size(); ++i) {
    if (pull.code(i) != Code::kOk) continue;
    for (uint32_t e = pull.part.extent_first; e < pull.part.extent_end; ++e) {
      const bool told = std::any_of(pull.lost.begin(), pull.lost.end(), [&](const auto& lost) {
        return lost.block == i && lost.extent == e && lost.state == wire::LostState::kLost;
      });
      const auto it = pull.got.find({i, e});
      if (told) continue;
      ASSERT_NE(it, pull.got.end()) << "block " << i << " extent " << e << " is missing";
      EXPECT_TRUE(it->second == bytes_of_extent(blocks[i], e)) << "block " << i << " extent " << e;
    }
  }
}

void Rig::expect_at_rest() {
  settle();
  EXPECT_TRUE(operations->at_rest());
  EXPECT_TRUE(tier.at_rest());
  EXPECT_EQ(tier.used_bytes(Budget::kPush), 0u);
  EXPECT_EQ(tier.used_bytes(Budget::kPull), 0u);
  EXPECT_EQ(flash.reserved_pages, 0u);
}

void Rig::deliver_data(Message& message) {
  DataSend& send = *static_cast<DataSend*>(message.owner);
  Rig& rig = *static_cast<Pull*>(send.part->owner)->rig;
  rig.sends.push_back(&send);
  rig.on_data(send);
}

void Rig::on_data(DataSend& send) {
  Pull& pull = *static_cast<Pull*>(send.part->owner);
  const std::pair<uint32_t, uint32_t> key{send.data.block, send.data.extent};
  std::vector<std::byte>& got = pull.got[key];
  EXPECT_EQ(got.size(), send.data.offset) << "frames of an extent in offset order";
  if (send.data.offset == 0) pull.order.emplace_back(send.data.extent, send.data.block);
  EXPECT_LE(send.request.payload_bytes(), kPayloadBytesMax);
  for (uint32_t p = 0; p < send.request.payload_count; ++p) {
    const iovec& piece = send.request.payload[p];
    const auto* data = static_cast<const std::byte*>(piece.iov_base);
    got.insert(got.end(), data, data + piece.iov_len);
  }
  pull.posted_bytes += send.request.payload_bytes();
  const BlockId id{send.part->request->ids[send.data.block], send.part->rank};
  if (got.size() == send.data.entry.stored_bytes) {
    const ChecksumSeed seed = checksum_seed(id, send.data.extent, send.data.attempt);
    EXPECT_EQ(crc32c(seed.stored, got), send.data.entry.stored_crc);
  }
  if (!hold_data) answer_data();
}

void Rig::deliver_lost(Message& message) {
  LostNote& note = *static_cast<LostNote*>(message.owner);
  Pull& pull = *static_cast<Pull*>(note.part->owner);
  pull.lost.push_back(note.lost);
  note.message.deliver = note.back;
  note.message.owner = &note;
  pull.rig->reactor.post(note.message);
}

void Rig::deliver_credit(Message& message) {
  CreditAsk& ask = *static_cast<CreditAsk*>(message.owner);
  Rig& rig = *static_cast<Pull*>(ask.part->owner)->rig;
  rig.asks.push_back(&ask);
  if (!rig.hold_credit) rig.answer_credit();
}

void Rig::answer_credit() {
  std::vector<CreditAsk*> all;
  all.swap(asks);
  for (CreditAsk* ask : all) {
    Pull& pull = *static_cast<Pull*>(ask->part->owner);
    ask->status = credit_status;
    if (credit_status.ok()) pull.granted_bytes += ask->bytes;
    ask->message.deliver = ask->back;
    ask->message.owner = ask;
    reactor.post(ask->message);
  }
}

void Rig::answer_data(size_t limit) {
  for (; limit > 0 && !sends.empty(); --limit) {
    DataSend* send = sends.front();
    sends.erase(sends.begin());
    send->status = data_status;
    send->message.deliver = send->back;
    send->message.owner = send;
    reactor.post(send->message);
  }
}

bool Rig::Loop::on_recovered(const flash::FragmentInfo& f) {
  return rig->operations->catalog().recovered(f);
}
void Rig::Loop::on_lost(const BlockId& b, const flash::Place& p, flash::DropReason r) {
  rig->operations->catalog().lost(b, p, r);
}
flash::FlashUser::Verdict Rig::Loop::on_reclaim(const BlockId& b, const flash::Place& p) {
  return rig->operations->catalog().reclaim(b, p);
}
bool Rig::Loop::on_live(const BlockId& b, const flash::Place& p) {
  return rig->operations->catalog().is_live(b, p);
}
bool Rig::Loop::on_moved(const BlockId& b, const flash::Place& f, const flash::Place& t) {
  return rig->operations->catalog().moved(b, f, t);
}
void Rig::Loop::on_room_wanted(uint32_t target, uint32_t slice, uint32_t pages) {
  rig->operations->room_wanted(target, slice, pages);
}

}  // namespace varve
