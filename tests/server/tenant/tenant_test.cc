// Goal: a token is of one domain or nobody's, an id is given once, and no text of the folder is
// taken for something else than what was written. Method: tables in memory, texts cut and bent.
#include "server/tenant/tenant.h"

#include <gtest/gtest.h>

#include <set>

namespace varve {
namespace {

ConstByteSpan view(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

Digest salt_of(uint8_t first) {
  Digest salt;
  salt.bytes.fill(std::byte{0x5a});
  salt.bytes[0] = std::byte{first};
  return salt;
}

Domains some() {
  Domains table(salt_of(1), "the token of a file");
  EXPECT_TRUE(table.add("team-a", {salt_of(2), "token of team a"}, 3).ok());
  EXPECT_TRUE(table.add("team-b", {salt_of(3), "token of team b"}, 4).ok());
  return table;
}

// A text whose sum holds, however odd it is.
std::string sealed(const std::string& text) {
  return text + "sum " + to_hex(Sha256().update(view(text)).finish().bytes) + "\n";
}

TEST(Tenant, ATokenIsOfItsDomainOrNobodys) {
  const Domains table = some();
  ASSERT_EQ(table.all().size(), 3u);
  EXPECT_EQ(table.of_token(view("the token of a file")), &table.all()[0]);
  EXPECT_EQ(table.of_token(view("token of team a")), &table.all()[1]);
  EXPECT_EQ(table.of_token(view("token of team b")), &table.all()[2]);
  for (const std::string_view other : {"", "token of team", "token of team c", "default", "team-a"})
    EXPECT_EQ(table.of_token(view(other)), nullptr) << other;
  EXPECT_EQ(table.find("team-b")->id, 3u);
  EXPECT_EQ(table.find(2)->salt, salt_of(2));
  EXPECT_EQ(table.find("team-c"), nullptr);
  EXPECT_EQ(table.find(4), nullptr);
}

// Expect: no token is the default's where that has none, a wrong one never is.
TEST(Tenant, WithoutATokenTheDefaultIsWhoeverBringsNone) {
  Domains table(salt_of(1), "");
  EXPECT_EQ(table.of_token({}), &table.by_default());
  EXPECT_EQ(table.of_token(view("of a domain that was dropped")), nullptr);
  ASSERT_TRUE(table.add("team-a", {salt_of(2), "token of team a"}, 1).ok());
  EXPECT_EQ(table.of_token({}), &table.by_default());
  EXPECT_EQ(table.of_token(view("token of team a")), table.find("team-a"));
}

TEST(Tenant, TheDefaultIsThereFirstAndStays) {
  Domains table = some();
  EXPECT_EQ(table.by_default().id, kDomainDefault);
  EXPECT_EQ(table.by_default().name, "default");
  EXPECT_EQ(table.drop("default").code(), Code::kInvalid);
  EXPECT_EQ(table.rotate("default", "another token").code(), Code::kInvalid);
  EXPECT_EQ(table.add("default", {salt_of(9), "one more token"}, 1).code(), Code::kInvalid);
  EXPECT_EQ(table.all().size(), 3u);
}

TEST(Tenant, RotatingEndsTheOldTokenAndDroppingBoth) {
  Domains table = some();
  ASSERT_TRUE(table.rotate("team-a", "a newer token").ok());
  EXPECT_EQ(table.of_token(view("token of team a")), nullptr);
  EXPECT_EQ(table.of_token(view("a newer token"))->id, 2u);
  EXPECT_EQ(table.find(2)->salt, salt_of(2)) << "its blocks stay hits";
  ASSERT_TRUE(table.drop("team-a").ok());
  EXPECT_EQ(table.of_token(view("a newer token")), nullptr);
  EXPECT_EQ(table.drop("team-a").code(), Code::kInvalid);
  EXPECT_EQ(table.rotate("team-a", "once more a token").code(), Code::kInvalid);
}

// T1: what lies on a drive under an id is never another domain's.
TEST(Tenant, AnIdIsNeverGivenTwice) {
  Domains table = some();
  ASSERT_TRUE(table.drop("team-b").ok());
  ASSERT_TRUE(table.add("team-b", {salt_of(4), "token of a new team"}, 5).ok());
  EXPECT_EQ(table.find("team-b")->id, 4u);
  ASSERT_TRUE(table.drop("team-b").ok());
  Result<Domains> later = Domains(salt_of(1), "").with_text(table.text());
  ASSERT_TRUE(later.has_value());
  ASSERT_TRUE(later->add("team-c", {salt_of(5), "token of team c"}, 6).ok());
  EXPECT_EQ(later->find("team-c")->id, 5u);
  later->id_last_raise(70);
  later->id_last_raise(7);
  ASSERT_TRUE(later->add("team-d", {salt_of(6), "token of team d"}, 6).ok());
  EXPECT_EQ(later->find("team-d")->id, 71u);
  later->id_last_raise(~0u);
  EXPECT_EQ(later->add("team-e", {salt_of(7), "token of team e"}, 6).code(), Code::kUnsupported);
}

// By it an older text is told from the last one.
TEST(Tenant, EachChangeIsCountedAndNoRefusal) {
  Domains table = some();
  EXPECT_EQ(table.changes(), 2u);
  ASSERT_TRUE(table.rotate("team-a", "a newer token").ok());
  EXPECT_EQ(table.changes(), 3u);
  ASSERT_TRUE(table.drop("team-a").ok());
  EXPECT_EQ(table.changes(), 4u);
  EXPECT_FALSE(table.drop("team-a").ok());
  EXPECT_FALSE(table.rotate("team-a", "once more a token").ok());
  EXPECT_FALSE(table.add("team-b", {salt_of(9), "one more token"}, 1).ok());
  EXPECT_EQ(table.changes(), 4u);
  Result<Domains> later = Domains().with_text(table.text());
  ASSERT_TRUE(later.has_value());
  EXPECT_EQ(later->changes(), 4u);
  later->changes_raise(3);
  EXPECT_EQ(later->changes(), 4u);
  later->changes_raise(9);
  EXPECT_EQ(later->changes(), 9u);
}

TEST(Tenant, NamesAndSecretsAreEachOfOneDomain) {
  Domains table = some();
  EXPECT_EQ(table.add("team-a", {salt_of(9), "one more token"}, 1).code(), Code::kInvalid);
  EXPECT_EQ(table.add("x", {salt_of(2), "one more token"}, 1).code(), Code::kInternal);
  EXPECT_EQ(table.add("x", {salt_of(1), "one more token"}, 1).code(), Code::kInternal);
  EXPECT_EQ(table.add("x", {salt_of(9), "token of team b"}, 1).code(), Code::kInternal);
  EXPECT_EQ(table.add("x", {salt_of(9), "the token of a file"}, 1).code(), Code::kInternal);
  EXPECT_EQ(table.rotate("team-a", "token of team b").code(), Code::kInternal);
  for (const std::string_view name : {"", "Team", "a b", "a/b", "a\n", "\xc3\xa4"})
    EXPECT_EQ(table.add(name, {salt_of(9), "one more token"}, 1).code(), Code::kInvalid) << name;
  EXPECT_TRUE(is_domain_name(std::string(64, 'a')));
  EXPECT_FALSE(is_domain_name(std::string(65, 'a')));
  EXPECT_EQ(table.all().size(), 3u);
  EXPECT_EQ(table.id_last(), 3u);
}

TEST(Tenant, ThereAre32AtMost) {
  Domains table(salt_of(0), "");
  for (uint32_t n = 2; n <= kNodeDomainsMax; ++n) {
    const std::string number = std::to_string(n);
    ASSERT_TRUE(
        table.add("d" + number, {salt_of(static_cast<uint8_t>(n)), "token " + number}, 1).ok());
  }
  EXPECT_EQ(table.add("more", {salt_of(99), "token of more"}, 1).code(), Code::kQuota);
  const Result<Domains> read = Domains(salt_of(0), "").with_text(table.text());
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->all().size(), kNodeDomainsMax);
  std::set<const Domain*> found;
  for (uint32_t n = 2; n <= kNodeDomainsMax; ++n)
    found.insert(table.of_token(view("token " + std::to_string(n))));
  EXPECT_EQ(found.size(), kNodeDomainsMax - 1);
  EXPECT_FALSE(found.contains(nullptr));
}

TEST(Tenant, TheTextSaysAllButTheDefaultAndNoToken) {
  const Domains table = some();
  const std::string text = table.text();
  EXPECT_EQ(text.rfind("varve domains 1 3 2\n2 team-a 3 ", 0), 0u) << text;
  EXPECT_EQ(text.find("token"), std::string::npos);
  EXPECT_EQ(text.find(to_hex(salt_of(1).bytes)), std::string::npos);
  // Expect: read back beside another default, it is the same.
  const Result<Domains> read = Domains(salt_of(7), "other").with_text(text);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->text(), text);
  EXPECT_EQ(read->by_default().salt, salt_of(7));
  EXPECT_EQ(read->find("team-a")->boot_generation, 3u);
  EXPECT_EQ(read->of_token(view("token of team b"))->name, "team-b");
  EXPECT_EQ(Domains().with_text(Domains().text())->all().size(), 1u);
}

// Any byte changed, and any end cut off, is seen.
TEST(Tenant, RotAndTruncationAreRefused) {
  const std::string text = some().text();
  for (size_t at = 0; at < text.size(); ++at) {
    const Result<Domains> cut = Domains().with_text(text.substr(0, at));
    ASSERT_FALSE(cut.has_value()) << at;
    EXPECT_EQ(cut.error().code(), Code::kCorrupt);
    std::string rotten = text;
    rotten[at] = static_cast<char>(rotten[at] ^ 1);
    ASSERT_FALSE(Domains().with_text(rotten).has_value()) << at << "\n" << rotten;
  }
  EXPECT_FALSE(Domains().with_text(text + "x").has_value());
  EXPECT_FALSE(Domains().with_text(text + text).has_value());
}

TEST(Tenant, ANewerVersionIsNamedWhateverItIsLike) {
  const auto code = [](const std::string& text) {
    return Domains().with_text(text).error().code();
  };
  EXPECT_EQ(code("varve domains 2 3 and more\nof another kind"), Code::kUnsupported);
  EXPECT_EQ(code(sealed("varve domains 2 3\n")), Code::kUnsupported);
  EXPECT_EQ(code(sealed("varve domains 0 3\n")), Code::kCorrupt);
  EXPECT_EQ(code(sealed("varve domains 1 0 0\n")), Code::kCorrupt);
  EXPECT_EQ(code(sealed("varve domains 1 -1 0\n")), Code::kCorrupt);
  EXPECT_EQ(code(sealed("varve domains 1 4294967296 0\n")), Code::kCorrupt);
  EXPECT_EQ(code(sealed("varve domains 1\n")), Code::kCorrupt);
  EXPECT_EQ(code(sealed("varve domains 1 3\n")), Code::kCorrupt);
  EXPECT_EQ(code(sealed("varve domains 1 3 4294967296\n")), Code::kCorrupt);
  EXPECT_EQ(code(sealed("varve domains 1 3 1 1\n")), Code::kCorrupt);
  EXPECT_EQ(code(sealed("varve targets 1 1\n")), Code::kCorrupt);
}

// A text whose sum holds may be somebody's work: every row is looked at all the same.
TEST(Tenant, OddRowsAreRefusedThoughTheSumHolds) {
  const auto row = [](const std::string& begin, uint8_t salt, uint8_t hash) {
    return begin + " " + to_hex(salt_of(salt).bytes) + " " + to_hex(salt_of(hash).bytes) + "\n";
  };
  const auto read = [](const std::string& rows) {
    return Domains().with_text(sealed("varve domains 1 9 9\n" + rows));
  };
  EXPECT_TRUE(read(row("2 a 1", 2, 3) + row("9 b 1", 4, 5)).has_value());
  for (const std::string& rows :
       {row("2 a 1", 2, 3) + row("2 b 1", 4, 5),  // an id twice
        row("3 a 1", 2, 3) + row("2 b 1", 4, 5),  // falling
        row("2 a 1", 2, 3) + row("3 a 1", 4, 5),  // a name twice
        row("2 a 1", 2, 3) + row("3 b 1", 2, 5),  // a salt twice
        row("2 a 1", 2, 3) + row("3 b 1", 4, 3),  // a token twice
        row("2 default 1", 2, 3), row("1 a 1", 2, 3), row("10 a 1", 2, 3), row("2 A 1", 2, 3),
        row("2  1", 2, 3), row("2 a -1", 2, 3), row("2 a", 2, 3), row("+2 a 1", 2, 3),
        row("2 a 1 1", 2, 3), row("2 a 4294967294", 2, 3), std::string("\n"),
        std::string("2 a 1 \n")}) {
    const Result<Domains> refused = read(rows);
    EXPECT_FALSE(refused.has_value()) << rows;
  }
  std::string many;
  for (uint8_t n = 2; n < 40; ++n)
    many += row(std::to_string(n) + " d" + std::to_string(n) + " 1", n, n + 100);
  EXPECT_FALSE(Domains().with_text(sealed("varve domains 1 90 90\n" + many)).has_value());
}

}  // namespace
}  // namespace varve
