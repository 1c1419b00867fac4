// Goal: a client of one domain can neither read, probe nor disturb another's, whatever it knows by
// heart, and domains come, change and go for good. Method: the varved of this build, engines and
// bare peers of several domains, and the control plane beside them.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/e2e/control_node.h"
#include "tests/e2e/peer.h"

namespace varve {
namespace {

class DomainsOfANode : public ControlOfANode {
 protected:
  void SetUp() override {
    ControlOfANode::SetUp();
    const std::string file = real.folder() + "/operators";
    std::ofstream(file) << "0123456789abcdef";
    std::filesystem::permissions(file, std::filesystem::perms::owner_read);
    real.shape.insert(real.shape.end(), {"--control-token-file", file});
    token = "0123456789abcdef";
  }
  // As a node starts that has no token of operators.
  void forget_token() {
    real.shape.resize(real.shape.size() - 2);
    token.clear();
  }
  v1::CreateDomainResponse make(const std::string& name) {
    v1::CreateDomainRequest in;
    in.set_name(name);
    v1::CreateDomainResponse out;
    const grpc::Status status = ask(&Stub::CreateDomain, in, &out);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return out;
  }
  v1::PurgeResponse drop(const std::string& name) {
    v1::DropDomainRequest in;
    in.set_name(name);
    v1::DropDomainResponse out;
    const grpc::Status status = ask(&Stub::DropDomain, in, &out);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return out.purged();
  }
  std::string rotate(const std::string& name) {
    v1::RotateDomainTokenRequest in;
    in.set_name(name);
    v1::RotateDomainTokenResponse out;
    EXPECT_TRUE(ask(&Stub::RotateDomainToken, in, &out).ok());
    return out.token();
  }
  std::vector<v1::Domain> domains(uint32_t page_size = 0) {
    std::vector<v1::Domain> all;
    v1::ListDomainsRequest in;
    in.set_page_size(page_size);
    do {
      v1::ListDomainsResponse out;
      EXPECT_TRUE(ask(&Stub::ListDomains, in, &out).ok());
      all.insert(all.end(), out.domains().begin(), out.domains().end());
      in.set_cursor(out.next_cursor());
    } while (in.cursor() != 0);
    return all;
  }
  const std::string& where() { return real.daemon().address(); }
  // What one has on flash, once the numbers of a second say what `wanted` does.
  v1::Domain has(const std::string& name, bool (*wanted)(const v1::Domain&)) {
    v1::Domain row;
    for (uint32_t tries = 0; tries < 100; ++tries) {
      for (const v1::Domain& domain : domains()) {
        if (domain.name() == name) row = domain;
      }
      if (wanted(row)) break;
      pause(100 * kMillisecond);
    }
    return row;
  }
  void lose_lists() {
    for (const char* name : {"domains.list", "targets.list"})
      std::filesystem::remove(real.folder() + "/data/" + name);
  }
  // So that the next start reads the footers of all segments, or their tails (FORMAT 6.2).
  void spoil_checkpoints() {
    for (const auto& file : std::filesystem::directory_iterator(real.folder() + "/data")) {
      if (file.path().extension() != ".dat") continue;
      std::fstream target(file.path(), std::ios::in | std::ios::out | std::ios::binary);
      const auto number = [&target](uint64_t at) {
        uint32_t value = 0;
        target.seekg(static_cast<std::streamoff>(at));
        target.read(reinterpret_cast<char*>(&value), sizeof(value));
        return value;
      };
      const uint32_t slices = number(96), segment_pages = number(100), segments = number(104);
      const uint32_t area_pages = number(108);
      const uint64_t slice_pages = 2ull * area_pages + uint64_t{segments} * segment_pages;
      for (uint32_t area = 0; area < 2 * slices; ++area) {
        const uint64_t page = 256 + area / 2 * slice_pages + area % 2 * area_pages;
        target.seekp(static_cast<std::streamoff>(page * 4096));
        target.write("spoilt", 6);
      }
      ASSERT_TRUE(target.good()) << file.path();
    }
  }
  // A push under ids that are somebody else's, with other bytes.
  std::vector<Code> push_other(Engine& engine, const std::vector<BaseId>& ids, uint8_t byte) {
    std::fill(engine.memory.begin(), engine.memory.end(), std::byte{byte});
    const OpId op = engine.push(ids);
    EXPECT_TRUE(engine.client->push_layer(op, ClientCore::kEveryLayer).ok());
    return engine.ended(op).codes;
  }
  PurgeResult purge(Engine& engine, wire::PurgeKind kind, const std::vector<BaseId>& ids = {}) {
    PurgeRequest request;
    request.kind = kind;
    request.ids = ids;
    if (kind == wire::PurgeKind::kLineage) request.format = engine.format;
    const Event event = engine.ended(*engine.client->purge(std::move(request)));
    EXPECT_TRUE(event.status.ok()) << event.status.what();
    return event.purged;
  }
  bool reads(Engine& engine, const std::vector<BaseId>& ids, uint64_t lease = 0) {
    std::fill(engine.memory.begin(), engine.memory.end(), std::byte{0xAB});
    if (engine.pull(ids, lease).codes != std::vector<Code>(kBlocks, Code::kOk)) return false;
    bool whole = true;
    for (uint32_t l = 0; l < kLayers; ++l)
      whole = whole && engine.holds_layer(ids, l);
    return whole;
  }
  static bool all_are(const Engine& engine, uint8_t byte) {
    return std::all_of(engine.memory.begin(), engine.memory.end(),
                       [byte](std::byte b) { return b == std::byte{byte}; });
  }
};

const std::vector<Code> kGone(kBlocks, Code::kUnavailable), kWhole(kBlocks, Code::kOk);

TEST_F(DomainsOfANode, WhatOneHasIsNotThereForAnother) {
  start();
  Engine a(where(), "a", make("team-a").token()), b(where(), "b", make("team-b").token());
  Engine own(where(), "own");
  const std::vector<BaseId> ids = a.ids(1);
  EXPECT_NE(ids, b.ids(1)) << "each has a salt of its own";
  a.store_blocks(ids);
  const Event leased = a.match(ids, 30000);
  ASSERT_EQ(leased.n_blocks, kBlocks);
  ASSERT_NE(leased.lease, 0u);
  for (Engine* other : {&b, &own}) {
    const Event matched = other->match(ids, 30000);
    EXPECT_EQ(matched.n_blocks, 0u);
    EXPECT_EQ(matched.lease, 0u);
    std::fill(other->memory.begin(), other->memory.end(), std::byte{0xAB});
    EXPECT_EQ(other->pull(ids, 0).codes, kGone);
    EXPECT_TRUE(all_are(*other, 0xAB)) << "not a byte";
    EXPECT_TRUE(other->held().empty());
    EXPECT_EQ(purge(*other, wire::PurgeKind::kBlocks, ids).blocks, 0u);
    EXPECT_EQ(purge(*other, wire::PurgeKind::kLineage).blocks, 0u);
    EXPECT_EQ(purge(*other, wire::PurgeKind::kDomain).blocks, 0u);
  }
  EXPECT_EQ(a.held().size(), 1u);
  EXPECT_EQ(a.match(ids).n_blocks, kBlocks);
  EXPECT_TRUE(reads(a, ids, leased.lease));

  // Expect: the operator sees what is there, where it is, and whose.
  const v1::Domain full = has("team-a", [](const v1::Domain& row) { return row.used_bytes() > 0; });
  EXPECT_EQ(full.blocks(), kBlocks);
  EXPECT_GT(full.used_bytes(), 0u);
  EXPECT_EQ(full.used_bytes() % kPageBytes, 0u);
  for (const v1::Domain& row : domains()) {
    if (row.name() == "team-a") continue;
    EXPECT_EQ(row.used_bytes() + row.dram_bytes() + row.blocks(), 0u) << row.name();
  }
  EXPECT_TRUE(find(ids[0], "team-a").found());
  EXPECT_FALSE(find(ids[0], "team-b").found());
  EXPECT_FALSE(find(ids[0]).found());
  EXPECT_EQ(match(ids, "team-a").length(), kBlocks);
  EXPECT_EQ(match(ids, "default").length(), 0u);
  v1::ListHoldsResponse holds;
  ASSERT_TRUE(ask(&Stub::ListHolds, v1::ListHoldsRequest(), &holds).ok());
  ASSERT_EQ(holds.holds_size(), 1);
  EXPECT_EQ(holds.holds(0).domain(), "team-a");
  v1::ListSessionsResponse sessions;
  ASSERT_TRUE(ask(&Stub::ListSessions, v1::ListSessionsRequest(), &sessions).ok());
  ASSERT_EQ(sessions.sessions_size(), 3);
  EXPECT_EQ(sessions.sessions(1).domain(), "team-b");
  v1::FindBlockRequest nowhere;
  nowhere.set_base_id(text_of(ids[0]));
  nowhere.set_domain("team-c");
  v1::FindBlockResponse unused;
  EXPECT_EQ(ask(&Stub::FindBlock, nowhere, &unused).error_code(), grpc::NOT_FOUND);
  v1::PurgeRequest in;
  in.set_kind(v1::PURGE_KIND_DOMAIN);
  in.set_domain("team-b");
  v1::PurgeResponse out;
  ASSERT_TRUE(ask(&Stub::Purge, in, &out).ok());
  EXPECT_EQ(out.blocks(), 0u);
  in.set_domain("team-a");
  ASSERT_TRUE(ask(&Stub::Purge, in, &out).ok());
  EXPECT_EQ(out.blocks(), kBlocks);
  EXPECT_EQ(a.match(ids).n_blocks, 0u);
  const v1::Domain empty =
      has("team-a", [](const v1::Domain& row) { return row.used_bytes() == 0; });
  EXPECT_EQ(empty.used_bytes() + empty.dram_bytes() + empty.blocks(), 0u);
  stop();
}

// Pushes under the same ids neither wait for each other nor meet, whichever came first.
TEST_F(DomainsOfANode, TheSameIdsAreOtherBlocks) {
  start();
  Engine a(where(), "a", make("team-a").token()), b(where(), "b", make("team-b").token());
  const std::vector<BaseId> ids = a.ids(1), later = a.ids(2);
  a.store_blocks(ids);
  EXPECT_EQ(push_other(b, ids, 0x5a), kWhole) << "granted, not `exists`";
  EXPECT_TRUE(reads(a, ids));
  std::fill(b.memory.begin(), b.memory.end(), std::byte{0});
  EXPECT_EQ(b.pull(ids, 0).codes, kWhole);
  EXPECT_TRUE(all_are(b, 0x5a));

  // Now while the other one still pushes, and follows what it is not given.
  for (uint32_t l = 0; l < kLayers; ++l)
    a.fill(later, l);
  const OpId push = a.push(later);
  ASSERT_TRUE(a.client->push_layer(push, 0).ok());
  const Event reserved = a.next(push);
  ASSERT_EQ(reserved.granted.size(), kBlocks);
  const Event followed = b.ended(b.follow(reserved.granted));
  EXPECT_EQ(followed.codes, kGone);
  EXPECT_EQ(push_other(b, later, 0x66), kWhole) << "granted, not `busy`";
  EXPECT_EQ(purge(b, wire::PurgeKind::kBlocks, later).blocks, kBlocks);
  for (uint32_t l = 1; l < kLayers; ++l)
    ASSERT_TRUE(a.client->push_layer(push, l).ok());
  EXPECT_EQ(a.ended(push).codes, kWhole);
  EXPECT_TRUE(reads(a, later));
  EXPECT_EQ(b.match(later).n_blocks, 0u);
  EXPECT_EQ(b.match(ids).n_blocks, kBlocks);

  // Expect: all that in the next life, too, found again on the drives.
  const std::string newer = rotate("team-b");
  real.daemon().kill_now();
  start();
  Engine reader(where(), "b again", newer);
  EXPECT_EQ(reader.match(ids).n_blocks, kBlocks);
  std::fill(reader.memory.begin(), reader.memory.end(), std::byte{0});
  EXPECT_EQ(reader.pull(ids, 0).codes, kWhole);
  EXPECT_TRUE(all_are(reader, 0x5a));
  EXPECT_EQ(reader.match(later).n_blocks, 0u);
  EXPECT_EQ(match(ids, "team-a").length(), kBlocks);
  EXPECT_EQ(match(later, "team-a").length(), kBlocks);
  stop();
}

// Numbers that a client was never given: of a session and its secret, a lease, an attempt, an op.
TEST_F(DomainsOfANode, NumbersOfAnotherDomainOpenNothing) {
  start();
  const std::string token_a = make("team-a").token(), token_b = make("team-b").token();
  Engine writer(where(), "writer", token_a);
  const std::vector<BaseId> ids = writer.ids(1), fresh = writer.ids(2);
  writer.store_blocks(ids);
  Peer a(where(), token_a), b(where(), token_b);
  ASSERT_EQ(a.refusal, Code::kOk);
  ASSERT_EQ(b.refusal, Code::kOk);
  EXPECT_NE(a.welcome.domain, b.welcome.domain);
  EXPECT_NE(a.welcome.domain_salt, b.welcome.domain_salt);
  EXPECT_EQ(b.join(a.welcome.session, a.welcome.session_secret), Code::kUnauthorized);
  ASSERT_EQ(a.join(a.welcome.session, a.welcome.session_secret), Code::kOk);
  ASSERT_EQ(b.join(b.welcome.session, b.welcome.session_secret), Code::kOk);
  const auto format_of = [](Peer& peer) {
    Format shape;
    shape.model.bytes[0] = std::byte{7};
    shape.lineage = "e2e";
    shape.tokens_per_block = 16;
    shape.ranks.emplace_back(kLayers, LayerSpec{LayerKind::kFull, kLayerBytes});
    const uint64_t op = peer.next_op();
    return peer.ask(op, peer.encoder().format(op, shape.encode())).as<wire::FormatOkView>().body;
  };
  const wire::FormatOk format = format_of(a), others = format_of(b);
  ASSERT_EQ(format.code, 0);
  EXPECT_EQ(format.fingerprint, others.fingerprint) << "of the same description";

  uint64_t op = a.next_op();
  const wire::Matched leased =
      a.ask(op, a.encoder().match(op, {.format = format.format, .lease_ms = 30000}, ids))
          .as<wire::MatchedView>()
          .body;
  ASSERT_EQ(leased.n_blocks, kBlocks);
  ASSERT_NE(leased.lease, 0u);
  const auto timed_out = static_cast<uint8_t>(Code::kTimedOut);
  op = b.next_op();
  EXPECT_EQ(b.ask(op, b.encoder().renew(op, {.lease = leased.lease, .lease_ms = 1}))
                .as<wire::RenewedView>()
                .body.code,
            timed_out);
  op = b.next_op();
  EXPECT_EQ(b.ask(op, b.encoder().release(op, {.lease = leased.lease}))
                .as<wire::ReleasedView>()
                .body.code,
            timed_out);
  wire::Pull pull;
  pull.format = others.format;
  pull.lease = leased.lease;
  pull.boot_id = leased.boot_id;
  pull.deadline_ns = 10 * kSecond;
  pull.layer_count = kLayers;
  op = b.next_op();
  const PeerReply pulled = b.ask(op, b.encoder().pull(op, pull, ids));
  EXPECT_EQ(pulled.as<wire::PulledView>().body.code, timed_out);
  EXPECT_EQ(pulled.as<wire::PulledView>().body.count, 0u);

  wire::Reserve reserve;
  reserve.format = format.format;
  reserve.epoch = a.welcome.epoch;
  reserve.hold_ms = 30000;
  const uint64_t reserve_op = a.next_op();
  const PeerReply reserved = a.ask(reserve_op, a.encoder().reserve(reserve_op, reserve, fresh));
  const wire::ReserveAnswer granted = reserved.as<wire::ReservedView>().answers[0];
  ASSERT_EQ(granted.outcome, wire::ReserveOutcome::kGranted);
  wire::Abort abort;
  abort.reserve_op = reserve_op;
  abort.attempt = granted.attempt;
  op = b.next_op();
  (void)b.ask(op, b.encoder().abort(op, abort));  // of what it does not have: nothing happens
  wire::Commit commit;
  commit.reserve_op = reserve_op;
  commit.epoch = b.welcome.epoch;
  commit.attempt = granted.attempt;
  op = b.next_op();
  const std::vector<ExtentEntry> entries(kLayers, {.stored_bytes = kLayerBytes});
  EXPECT_NE(b.ask(op, b.encoder().commit(op, commit, entries)).as<wire::CommittedView>().body.code,
            0);
  op = b.next_op();
  (void)b.ask(op, b.encoder().cancel(op, {.target_op = reserve_op}));
  wire::Follow follow;
  follow.format = others.format;
  follow.deadline_ns = 10 * kSecond;
  follow.layer_count = kLayers;
  const std::vector<wire::FollowBlock> blocks = {{fresh[0], granted.attempt}};
  op = b.next_op();
  const PeerReply followed = b.ask(op, b.encoder().follow(op, follow, blocks));
  ASSERT_EQ(followed.as<wire::PulledView>().codes.size(), 1u);
  EXPECT_EQ(followed.as<wire::PulledView>().codes[0], static_cast<uint8_t>(Code::kUnavailable));

  // Expect: all of it is still there for whom it is: a lease and two attempts.
  op = a.next_op();
  EXPECT_EQ(a.ask(op, a.encoder().holds(op, {})).as<wire::HeldView>().holds.size(), 3u);
  op = b.next_op();
  EXPECT_EQ(b.ask(op, b.encoder().holds(op, {})).as<wire::HeldView>().holds.size(), 0u);
  op = a.next_op();
  EXPECT_EQ(a.ask(op, a.encoder().renew(op, {.lease = leased.lease, .lease_ms = 20000}))
                .as<wire::RenewedView>()
                .body.code,
            0);
  EXPECT_TRUE(reads(writer, ids));
  stop();
}

TEST_F(DomainsOfANode, ComeChangeAndGoForGood) {
  start();
  const v1::CreateDomainResponse made = make("team-a");
  EXPECT_EQ(made.domain().id(), 2u);
  EXPECT_EQ(made.token().size(), 64u);
  const std::string list = real.folder() + "/data/domains.list";
  struct stat info = {};
  ASSERT_EQ(::stat(list.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
  v1::CreateDomainRequest again;
  again.set_name("team-a");
  v1::CreateDomainResponse unused;
  EXPECT_EQ(ask(&Stub::CreateDomain, again, &unused).error_code(), grpc::FAILED_PRECONDITION);
  again.set_name("team-q");
  again.set_quota_bytes(1 << 20);
  EXPECT_EQ(ask(&Stub::CreateDomain, again, &unused).error_code(), grpc::UNIMPLEMENTED);

  // Expect: the answer is good at once, and after a kill.
  real.daemon().kill_now();
  start();
  auto engine = std::make_unique<Engine>(where(), "a", made.token());
  const std::vector<BaseId> ids = engine->ids(1);
  engine->store_blocks(ids);
  EXPECT_EQ(domains(1).size(), 2u);
  EXPECT_EQ(domains()[1].name(), "team-a");
  EXPECT_TRUE(domains()[1].has_token());
  EXPECT_FALSE(domains()[0].has_token());

  // Rotating: who is there stays, the old token opens nothing more.
  Peer there(where(), made.token());
  const std::string newer = rotate("team-a");
  EXPECT_NE(newer, made.token());
  EXPECT_EQ(Peer(where(), made.token()).refusal, Code::kUnauthorized);
  EXPECT_TRUE(there.alive());
  EXPECT_EQ(engine->match(ids).n_blocks, kBlocks);
  Peer renewed(where(), newer);
  EXPECT_EQ(renewed.welcome.domain, 2u);

  v1::PurgeRequest purge;
  purge.set_kind(v1::PURGE_KIND_DOMAIN);
  purge.set_domain("team-a");
  v1::PurgeResponse purged;
  for (uint32_t generation = 1; generation <= 2; ++generation) {
    ASSERT_TRUE(ask(&Stub::Purge, purge, &purged).ok());
    EXPECT_EQ(purged.generation(), generation);
    EXPECT_EQ(domains()[1].generation(), generation);
    EXPECT_EQ(domains()[0].generation(), 0u);
  }
  EXPECT_EQ(engine->match(ids).n_blocks, 0u);
  engine->store_blocks(ids);

  // Dropping: sessions end, what they stored is nobody's.
  engine.reset();
  const v1::PurgeResponse ended = drop("team-a");
  EXPECT_EQ(ended.blocks(), kBlocks);
  EXPECT_EQ(ended.generation(), 3u);
  EXPECT_TRUE(there.closes());
  EXPECT_TRUE(renewed.closes());
  for (const std::string& old : {made.token(), newer})
    EXPECT_EQ(Peer(where(), old).refusal, Code::kUnauthorized);
  EXPECT_EQ(Peer(where(), "").refusal, Code::kOk);
  v1::DropDomainRequest gone;
  gone.set_name("team-a");
  v1::DropDomainResponse dropped;
  EXPECT_EQ(ask(&Stub::DropDomain, gone, &dropped).error_code(), grpc::NOT_FOUND);
  gone.set_name("default");
  EXPECT_EQ(ask(&Stub::DropDomain, gone, &dropped).error_code(), grpc::FAILED_PRECONDITION);
  v1::RotateDomainTokenRequest of_default;
  of_default.set_name("default");
  v1::RotateDomainTokenResponse rotated;
  EXPECT_EQ(ask(&Stub::RotateDomainToken, of_default, &rotated).error_code(),
            grpc::FAILED_PRECONDITION);

  // Expect: a domain of the same name is another one, and finds nothing, also in the next life.
  const v1::CreateDomainResponse other = make("team-a");
  EXPECT_EQ(other.domain().id(), 3u);
  for (uint32_t life = 0; life < 2; ++life) {
    Engine newcomer(where(), "newcomer", other.token());
    EXPECT_EQ(newcomer.match(ids).n_blocks, 0u);
    EXPECT_EQ(match(ids, "team-a").length(), 0u);
    EXPECT_EQ(Peer(where(), newer).refusal, Code::kUnauthorized);
    real.daemon().kill_now();
    start();
  }
  EXPECT_EQ(real.log().find(made.token()), std::string::npos);
  EXPECT_EQ(real.log().find(newer), std::string::npos);
  stop();
}

// Who may call the control plane may take a domain's token: where that is all of the machine, no
// token is given out.
TEST_F(DomainsOfANode, AreNotMadeWhereEverybodyIsAnOperator) {
  start();
  make("team-a");
  stop();
  EXPECT_EQ(real.log().find("NO TOKEN OF OPERATORS"), std::string::npos) << real.log();
  forget_token();
  start();
  EXPECT_NE(real.log().find("2 DOMAINS AND NO TOKEN OF OPERATORS"), std::string::npos)
      << real.log();
  v1::CreateDomainRequest create;
  create.set_name("team-b");
  v1::CreateDomainResponse created;
  const grpc::Status refused = ask(&Stub::CreateDomain, create, &created);
  EXPECT_EQ(refused.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_NE(refused.error_message().find("--control-token-file"), std::string::npos);
  v1::RotateDomainTokenRequest rotate;
  rotate.set_name("team-a");
  v1::RotateDomainTokenResponse rotated;
  EXPECT_EQ(ask(&Stub::RotateDomainToken, rotate, &rotated).error_code(),
            grpc::FAILED_PRECONDITION);
  EXPECT_TRUE(created.token().empty() && rotated.token().empty());
  EXPECT_EQ(domains().size(), 2u);
  stop();
}

// A copy of before would bring back a token that was replaced, or a domain that was dropped.
TEST_F(DomainsOfANode, ACopyOfTheListOfBeforeEndsTheStart) {
  start();
  const std::string list = real.folder() + "/data/domains.list";
  const auto overwrite = std::filesystem::copy_options::overwrite_existing;
  const std::string first = make("team-a").token();
  for (const bool drops : {false, true}) {
    std::filesystem::copy_file(list, list + ".old", overwrite);
    if (drops) {
      drop("team-a");
    } else {
      rotate("team-a");
    }
    stop();
    std::filesystem::copy_file(list, list + ".last", overwrite);
    std::filesystem::copy_file(list + ".old", list, overwrite);
    const size_t before = real.log().size();
    EXPECT_FALSE(real.start().ok());
    EXPECT_NE(real.log().find("domains.list is a copy of before", before), std::string::npos)
        << real.log();
    std::filesystem::copy_file(list + ".last", list, overwrite);
    start();
    EXPECT_EQ(Peer(where(), first).refusal, Code::kUnauthorized);
    EXPECT_EQ(domains().size(), drops ? 1u : 2u);
  }
  stop();
}

// Without its mark in the list of targets a lost list would let its id be given again.
TEST_F(DomainsOfANode, ADomainThatCannotBeMarkedIsNotMade) {
  start();
  const std::string targets = real.folder() + "/data/targets.list";
  ASSERT_EQ(::symlink("/dev/full", (targets + ".new").c_str()), 0);
  v1::CreateDomainRequest in;
  in.set_name("team-a");
  v1::CreateDomainResponse out;
  const grpc::Status refused = ask(&Stub::CreateDomain, in, &out);
  EXPECT_FALSE(refused.ok());
  EXPECT_NE(refused.error_message().find("nothing was changed"), std::string::npos)
      << refused.error_message();
  EXPECT_TRUE(out.token().empty());
  EXPECT_EQ(domains().size(), 1u);
  EXPECT_EQ(make("team-a").domain().id(), 3u) << "the first id may stand in a copy of the list";
  stop();
}

// Without either list nobody but the drives knows which ids were given.
TEST_F(DomainsOfANode, AnIdThatDrivesKnowIsNotGivenAgain) {
  start();
  make("team-b");
  const std::string secret = make("team-a").token();
  std::vector<BaseId> ids;
  {
    Engine engine(where(), "a", secret);
    ids = engine.ids(1);
    engine.store_blocks(ids);
  }
  stop();
  lose_lists();
  start();
  EXPECT_EQ(domains().size(), 1u);
  const v1::CreateDomainResponse other = make("team-c");
  EXPECT_EQ(other.domain().id(), 4u);
  real.daemon().kill_now();
  start();
  EXPECT_EQ(match(ids, "team-c").length(), 0u);
  stop();
}

// Of one that was dropped neither checkpoints nor generations tell; its segments are still there.
TEST_F(DomainsOfANode, WhatADroppedDomainLeftIsNotOfALaterOneOfItsId) {
  start();
  std::vector<BaseId> ids;
  {
    Engine engine(where(), "a", make("team-a").token());
    ids = engine.ids(1);
    engine.store_blocks(ids);
  }
  EXPECT_EQ(drop("team-a").blocks(), kBlocks);
  stop();
  start();
  stop();
  lose_lists();
  start();
  EXPECT_EQ(make("team-c").domain().id(), 2u) << "nothing tells of the one before";
  real.daemon().kill_now();
  spoil_checkpoints();
  start();
  EXPECT_EQ(match(ids, "team-c").length(), 0u);
  stop();
}

// The first checkpoint without the lists tells of no other domain: what recovery saw is kept.
TEST_F(DomainsOfANode, AnIdThatDrivesKnewOfIsNotGivenAgain) {
  start();
  std::vector<BaseId> ids;
  {
    Engine engine(where(), "a", make("team-a").token());
    ids = engine.ids(1);
    engine.store_blocks(ids);
  }
  stop();
  lose_lists();
  start();
  const std::string mark = "\ndomains 1 0 2\n";
  std::string targets;
  for (Nanos waited = 0; waited < kPatience && targets.find(mark) == std::string::npos;
       waited += 50 * kMillisecond) {
    pause(50 * kMillisecond);
    std::ifstream file(real.folder() + "/data/targets.list");
    targets.assign(std::istreambuf_iterator<char>(file), {});
  }
  EXPECT_NE(targets.find(mark), std::string::npos) << targets;
  stop();
  start();
  EXPECT_EQ(make("team-c").domain().id(), 3u);
  real.daemon().kill_now();
  spoil_checkpoints();
  start();
  EXPECT_EQ(match(ids, "team-c").length(), 0u);
  stop();
}

// A list that is lost, or that others may read, ends the start with a word; nothing is dropped.
TEST_F(DomainsOfANode, TheListIsKeptOrTheStartIsRefused) {
  start();
  const std::string secret = make("team-a").token();
  std::vector<BaseId> ids;
  {
    Engine engine(where(), "a", secret);
    ids = engine.ids(1);
    engine.store_blocks(ids);
  }
  stop();
  const std::string list = real.folder() + "/data/domains.list";
  std::filesystem::rename(list, list + ".kept");
  EXPECT_FALSE(real.start().ok());
  EXPECT_NE(real.log().find("domains.list is missing"), std::string::npos) << real.log();
  std::filesystem::rename(list + ".kept", list);
  ASSERT_EQ(::chmod(list.c_str(), 0644), 0);
  EXPECT_FALSE(real.start().ok());
  EXPECT_NE(real.log().find("chmod 600"), std::string::npos) << real.log();
  ASSERT_EQ(::chmod(list.c_str(), 0600), 0);
  start();
  Engine engine(where(), "a", secret);
  EXPECT_TRUE(reads(engine, ids));
  stop();
}

}  // namespace
}  // namespace varve
