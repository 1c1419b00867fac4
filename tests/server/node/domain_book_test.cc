// Goal: domains are the same in every later life, a change that is not on the drive is none, and no
// id is ever given twice. Method: a folder of the test, and books that are opened on it in turn.
#include "server/node/domain_book.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace varve {
namespace {

ConstByteSpan view(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class DomainBooks : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "varve-domains-XXXXXX";
    folder = mkdtemp(name.data());
    list = folder + "/domains.list";
    identity.domain_salt.bytes[0] = std::byte{1};
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  Failure load(DomainBook& book, std::string_view token = "") {
    identity.domain_id_last = 0;
    return book.load(folder, token, &identity);
  }
  std::string refused(std::string_view token = "") {
    DomainBook book;
    const Failure failure = load(book, token);
    EXPECT_EQ(failure.exit_code, kExitEnvironment);
    return failure.text;
  }
  std::string add(DomainBook& book, const std::string& name) {
    auto made = book.add(folder, name, entropy, 7);
    EXPECT_TRUE(made) << name;
    return made ? made->token : "";
  }
  void put(const std::string& text) {
    std::ofstream(list, std::ios::trunc) << text;
    ::chmod(list.c_str(), 0600);
  }
  std::string content() {
    std::string text;
    EXPECT_TRUE(read_file(list, &text));
    return text;
  }
  void mark(uint32_t id, uint32_t changes, uint32_t seen = 0) {
    TargetList targets{3, 4, {1, 0}, {}};
    targets.domain_id_seen = seen;
    targets.domain_id_last = id;
    targets.domain_changes = changes;
    ASSERT_TRUE(save_records(folder, targets).ok());
  }
  std::string folder, list;
  Identity identity;
  SeededEntropy entropy{7};
};

TEST_F(DomainBooks, AFirstStartHasTheDefaultAndNoFile) {
  DomainBook book;
  ASSERT_TRUE(load(book, "a token of sixteen").ok());
  EXPECT_EQ(book.now().all().size(), 1u);
  EXPECT_EQ(book.now().by_default().salt, identity.domain_salt);
  EXPECT_NE(book.now().of_token(view("a token of sixteen")), nullptr);
  EXPECT_EQ(identity.domain_id_last, 1u);
  EXPECT_FALSE(exists(list));
}

TEST_F(DomainBooks, AreTheSameInALaterLife) {
  std::string token, newer;
  {
    DomainBook book;
    ASSERT_TRUE(load(book).ok());
    token = add(book, "team-a");
    EXPECT_EQ(token.size(), 64u);
    EXPECT_NE(add(book, "team-b"), token);
    auto rotated = book.rotate(folder, "team-b", entropy);
    ASSERT_TRUE(rotated);
    newer = rotated->token;
    EXPECT_EQ(rotated->domain.id, 3u);
  }
  struct stat info = {};
  ASSERT_EQ(::stat(list.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
  EXPECT_EQ(content().find(token), std::string::npos);
  DomainBook book;
  ASSERT_TRUE(load(book).ok());
  EXPECT_EQ(book.now().of_token(view(token))->name, "team-a");
  EXPECT_EQ(book.now().of_token(view(newer))->name, "team-b");
  EXPECT_EQ(book.now().find("team-a")->boot_generation, 7u);
  EXPECT_NE(book.now().find(2)->salt, book.now().find(3)->salt);
  EXPECT_EQ(identity.domain_id_last, 3u);
  EXPECT_EQ(identity.domain_ids, (std::vector<uint32_t>{1, 2, 3}));
}

TEST_F(DomainBooks, ADropIsDoneAgainUntilItsPurgeWasAnswered) {
  DomainBook book;
  ASSERT_TRUE(load(book).ok());
  const std::string token = add(book, "team-a");
  auto dropped = book.drop(folder, "team-a");
  ASSERT_TRUE(dropped);
  EXPECT_EQ(dropped->id, 2u);
  EXPECT_EQ(book.now().of_token(view(token)), nullptr);
  // Expect: in no later start it is there, whatever comes of the purge.
  DomainBook later;
  ASSERT_TRUE(load(later).ok());
  EXPECT_EQ(later.now().find("team-a"), nullptr);
  auto again = book.drop(folder, "team-a");
  ASSERT_TRUE(again);
  EXPECT_EQ(again->id, 2u);
  auto early = book.add(folder, "team-a", entropy, 7);
  ASSERT_FALSE(early);
  EXPECT_EQ(early.refusal().kind, control::Refusal::Kind::kState);
  book.ended(2);
  EXPECT_EQ(book.drop(folder, "team-a").refusal().kind, control::Refusal::Kind::kNotFound);
  add(book, "team-a");
  EXPECT_EQ(book.now().find("team-a")->id, 3u);
}

TEST_F(DomainBooks, WhatCannotBeIsRefusedWithItsRemedy) {
  using Kind = control::Refusal::Kind;
  DomainBook book;
  ASSERT_TRUE(load(book).ok());
  add(book, "team-a");
  EXPECT_EQ(book.add(folder, "team-a", entropy, 7).refusal().kind, Kind::kState);
  EXPECT_EQ(book.add(folder, "default", entropy, 7).refusal().kind, Kind::kState);
  EXPECT_EQ(book.rotate(folder, "team-b", entropy).refusal().kind, Kind::kNotFound);
  EXPECT_EQ(book.rotate(folder, "default", entropy).refusal().kind, Kind::kState);
  EXPECT_EQ(book.drop(folder, "team-b").refusal().kind, Kind::kNotFound);
  EXPECT_EQ(book.drop(folder, "default").refusal().kind, Kind::kState);
  for (uint32_t n = 3; n <= kNodeDomainsMax; ++n)
    add(book, "d" + std::to_string(n));
  auto full = book.add(folder, "more", entropy, 7);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.refusal().code, Code::kQuota);
  EXPECT_NE(full.refusal().text.find("32"), std::string::npos) << full.refusal().text;
}

// A drive without room: the file, the memory and the tokens stay as they were.
TEST_F(DomainBooks, OnAFullDriveNothingChanges) {
  DomainBook book;
  ASSERT_TRUE(load(book).ok());
  const std::string token = add(book, "team-a"), before = content();
  for (int i = 0; i < 3; ++i) {
    if (::symlink("/dev/full", (list + ".new").c_str()) != 0) GTEST_SKIP() << "no links here";
    const auto refusal = i == 0   ? book.add(folder, "team-b", entropy, 7).refusal()
                         : i == 1 ? book.rotate(folder, "team-a", entropy).refusal()
                                  : book.drop(folder, "team-a").refusal();
    EXPECT_EQ(refusal.code, Code::kNoSpace);
    EXPECT_NE(refusal.text.find("No space left on device; nothing was changed"), std::string::npos)
        << refusal.text;
  }
  EXPECT_EQ(content(), before);
  EXPECT_EQ(book.now().all().size(), 2u);
  EXPECT_EQ(book.now().of_token(view(token))->name, "team-a");
  EXPECT_EQ(book.add(folder + "/nowhere", "team-b", entropy, 7).refusal().code, Code::kIo);
}

TEST_F(DomainBooks, ADamagedFileEndsTheStart) {
  DomainBook book;
  ASSERT_TRUE(load(book).ok());
  add(book, "team-a");
  const std::string text = content();
  for (const std::string& bad :
       {text.substr(0, text.size() - 1), text.substr(0, 30), std::string(), std::string("nones\n"),
        text + text, std::string("varve domains 1 1 0\n"), std::string(200, '\0')}) {
    put(bad);
    EXPECT_NE(refused().find("is damaged"), std::string::npos) << bad;
    EXPECT_EQ(content(), bad);
  }
  put("varve domains 2 9\nof another kind\n");
  EXPECT_NE(refused().find("a newer version of Varve"), std::string::npos);
  put(text);
  ASSERT_EQ(::chmod(list.c_str(), 0640), 0);
  EXPECT_NE(refused().find("chmod 600"), std::string::npos);
  ASSERT_EQ(::chmod(list.c_str(), 0600), 0);
  DomainBook whole;
  EXPECT_TRUE(load(whole).ok());
}

// Two domains with one token would be one, and which is chance.
TEST_F(DomainBooks, ATokenFileWithTheTokenOfADomainEndsTheStart) {
  DomainBook book;
  ASSERT_TRUE(load(book).ok());
  const std::string token = add(book, "team-a");
  EXPECT_NE(refused(token).find("a secret stands in it twice"), std::string::npos);
}

// Without the list of targets' word for it a new domain would have the blocks of an old one.
TEST_F(DomainBooks, ALostListIsNeitherForgottenNorItsIdsGivenAgain) {
  DomainBook book;
  mark(1, 0);
  ASSERT_TRUE(load(book).ok());
  mark(5, 7);
  const std::string text = refused();
  EXPECT_NE(text.find("domains.list is missing"), std::string::npos) << text;
  EXPECT_NE(text.find("write the line \"none\""), std::string::npos) << text;
  put("none\n");
  DomainBook given_up;
  ASSERT_TRUE(load(given_up).ok());
  EXPECT_EQ(identity.domain_id_last, 5u);
  add(given_up, "team-a");
  EXPECT_EQ(given_up.now().find("team-a")->id, 6u);
}

// It is given to no other, and no reason to ask for a list: nobody had one when it was seen. The
// list that has that domain may come back yet.
TEST_F(DomainBooks, AnIdThatDrivesKnewOfIsNotGivenAgain) {
  mark(1, 0, 5);
  DomainBook book;
  ASSERT_TRUE(load(book).ok());
  EXPECT_EQ(identity.domain_id_last, 1u);
  EXPECT_FALSE(book.is_above(5));
  EXPECT_TRUE(book.is_above(6));
  book.seen(6);
  EXPECT_FALSE(book.is_above(6));
  add(book, "team-a");
  EXPECT_EQ(book.now().find("team-a")->id, 7u);
  EXPECT_FALSE(book.is_above(7));
  DomainBook later;
  ASSERT_TRUE(load(later).ok());
  EXPECT_EQ(identity.domain_starts, (std::vector<uint32_t>{0, 7}));
}

// It would bring back the domains that were dropped since, and the tokens that were replaced.
TEST_F(DomainBooks, ACopyOfBeforeIsRefusedUntilSomebodySaysIt) {
  DomainBook book;
  ASSERT_TRUE(load(book).ok());
  const std::string token = add(book, "team-a"), copy = content();
  ASSERT_TRUE(book.rotate(folder, "team-a", entropy));
  ASSERT_TRUE(book.drop(folder, "team-a"));
  mark(9, book.now().changes());
  DomainBook last;
  EXPECT_TRUE(load(last).ok()) << "it knows of all changes";
  put(copy);
  const std::string text = refused();
  EXPECT_NE(text.find("it has 1 changes, and there were 3"), std::string::npos) << text;
  EXPECT_NE(text.find("write the line \"older\""), std::string::npos) << text;
  EXPECT_EQ(content(), copy);

  put("older\n" + copy.substr(1));
  EXPECT_NE(refused().find("is damaged"), std::string::npos);
  put("older\n" + copy);
  testing::internal::CaptureStderr();
  DomainBook later;
  const bool loaded = load(later).ok();
  const std::string log = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(loaded);
  EXPECT_NE(log.find("of 1 changes out of 3"), std::string::npos) << log;
  EXPECT_EQ(later.now().of_token(view(token))->name, "team-a");
  EXPECT_EQ(identity.domain_changes, 3u);
  // Expect: from its next change on it is the last one, and says so itself.
  add(later, "team-b");
  EXPECT_EQ(later.now().find("team-b")->id, 10u);
  mark(10, later.now().changes());
  DomainBook again;
  EXPECT_TRUE(load(again).ok());
}

// What was seen on drives of a domain that no list has is not the next one's.
TEST_F(DomainBooks, NoIdIsGivenThatWasSeen) {
  DomainBook book;
  ASSERT_TRUE(load(book).ok());
  ASSERT_TRUE(book.add(folder, "team-a", entropy, 7, 40));
  EXPECT_EQ(book.now().find("team-a")->id, 41u);
  ASSERT_TRUE(book.add(folder, "team-b", entropy, 7, 40));
  EXPECT_EQ(book.now().find("team-b")->id, 42u);
}

TEST_F(DomainBooks, WhatWasGivenUpIsNoCopyOfBefore) {
  mark(5, 7);
  put("none\n");
  DomainBook book;
  ASSERT_TRUE(load(book).ok());
  add(book, "team-a");
  mark(6, book.now().changes());
  EXPECT_EQ(book.now().changes(), 8u);
  DomainBook later;
  EXPECT_TRUE(load(later).ok());
}

}  // namespace
}  // namespace varve
