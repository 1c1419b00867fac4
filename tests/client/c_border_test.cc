// Goal: what crosses the border is a known version of a struct, and every status has its words.
// Method: structs of other sizes by hand, the last error of one thread beside another's.
#include "client/c_border.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <thread>

namespace varve {
namespace {

TEST(CBorderTest, EveryStatusHasWords) {
  for (varve_status s = VARVE_OK; s <= VARVE_INTERNAL; ++s)
    EXPECT_STRNE(varve_strerror(s), varve_strerror(-1)) << s;
  for (varve_status s = VARVE_MISS; s <= VARVE_FORKED; ++s)
    EXPECT_STRNE(varve_strerror(s), varve_strerror(-1)) << s;
  EXPECT_STREQ(varve_strerror(12345), varve_strerror(-1));
}

// A declaration of varve_c.h, and the comment above it as one line.
struct Declared {
  std::string comment, text;
};
std::vector<Declared> declarations() {
  std::ifstream file("client/varve_c.h");
  std::vector<Declared> all;
  std::string comment, line;
  while (std::getline(file, line)) {
    if (line.starts_with("//")) {
      comment += line.substr(2);
    } else if (line.starts_with("VARVE_API ")) {
      std::string text = line;
      while (text.find(';') == std::string::npos && std::getline(file, line))
        text += line;
      all.push_back({comment, text});
      comment.clear();
    } else {
      comment.clear();
    }
  }
  return all;
}

TEST(CBorderTest, EveryCallSaysAboveItHowItFails) {
  const std::vector<Declared> all = declarations();
  ASSERT_EQ(all.size(), 40u) << "count the new one here";
  for (const Declared& one : all) {
    SCOPED_TRACE(one.text);
    const auto says = [&](const char* what) { return one.comment.find(what) != std::string::npos; };
    const auto takes = [&](const char* what) { return one.text.find(what) != std::string::npos; };
    const bool is_void =
        takes("VARVE_API void") || takes("VARVE_API const char*") || takes("VARVE_API uint64_t");
    EXPECT_EQ(says("Never fails."), is_void);
    if (!takes("VARVE_API varve_status ")) continue;
    EXPECT_TRUE(says("Fails: "));
    if (takes("(varve_client* client") && !takes("varve_close(")) {
      EXPECT_TRUE(says("the usual"));
    }
    // A struct that may be of a later version than the library.
    if (takes("_request* request") || takes("_desc* desc") || takes("const varve_options*") ||
        takes("varve_tokens* tokens")) {
      EXPECT_TRUE(says("VARVE_UNSUPPORTED"));
    }
    if (takes("varve_op* op")) {  // a submit: the queue of completions may be full
      EXPECT_TRUE(says("VARVE_OVERLOADED"));
      EXPECT_TRUE(says("Ends: "));
      if (!takes("_request* request")) {  // which has its own, with a default beside it
        EXPECT_TRUE(says("deadline"));
        EXPECT_TRUE(says(" 1 s") || says(" 5 s"));
      }
    }
    if (takes("timeout_ns")) {
      EXPECT_TRUE(says("Blocks until") || says("blocks until"));
      EXPECT_TRUE(says("VARVE_TIMED_OUT"));
    }
  }
}

TEST(CBorderTest, AStructOfNoVersionIsRefused) {
  varve_pull_request in;
  varve_pull_request out;
  VARVE_INIT(&in);
  for (const uint32_t size : {0u, 4u, uint32_t{sizeof in} - 1, kStructBytesMax + 1, ~0u}) {
    in.struct_size = size;
    EXPECT_EQ(read_sized(&in, out).code(), Code::kInvalid) << size;
  }
  EXPECT_EQ(read_sized<varve_pull_request>(nullptr, out).code(), Code::kInvalid);
}

// A caller of a later header.
struct Later {
  varve_pull_request now;
  uint64_t field;
};

TEST(CBorderTest, ALaterStructIsReadAsLongAsItsNewFieldsAreZero) {
  Later later{};
  later.now.struct_size = sizeof later;
  later.now.tag = 9;
  varve_pull_request out;
  ASSERT_TRUE(read_sized(&later.now, out).ok());
  EXPECT_EQ(out.tag, 9u);
  later.field = 1;
  EXPECT_EQ(read_sized(&later.now, out).code(), Code::kUnsupported);
}

TEST(CBorderTest, WhatIsWrittenKeepsToTheCallersSize) {
  struct {
    varve_stats now;
    uint64_t later;
    uint64_t guard;
  } caller;
  std::memset(&caller, 0x55, sizeof caller);
  caller.now.struct_size = sizeof(varve_stats) + 8;
  varve_stats stats{};
  stats.matches = 3;
  write_sized(stats, &caller.now);
  EXPECT_EQ(caller.now.matches, 3u);
  EXPECT_EQ(caller.now.struct_size, sizeof(varve_stats) + 8);
  EXPECT_EQ(caller.later, 0u);
  EXPECT_EQ(caller.guard, 0x5555555555555555u);
}

TEST(CBorderTest, TheLastErrorIsThatOfThisThread) {
  EXPECT_EQ(varve_wait_ready(nullptr, 0), VARVE_INVALID);
  EXPECT_STREQ(varve_last_error(), "a null client");
  std::thread([] { EXPECT_STREQ(varve_last_error(), ""); }).join();
  EXPECT_EQ(tell(Status()), VARVE_OK);
  EXPECT_STREQ(varve_last_error(), "a null client");  // of the last that failed
}

TEST(CBorderTest, AnExceptionEndsAtTheBorder) {
  EXPECT_EQ(border([]() -> Outcome { throw std::bad_alloc(); }), VARVE_INTERNAL);
  EXPECT_STRNE(varve_last_error(), "");
}

TEST(CBorderTest, ANullClientIsRefusedByEveryCall) {
  varve_op op = 0;
  uint32_t number = 0;
  uint64_t wide = 0;
  size_t count = 0;
  EXPECT_EQ(varve_close(nullptr), VARVE_INVALID);
  varve_free(nullptr);
  EXPECT_EQ(varve_wait_ready(nullptr, 0), VARVE_INVALID);
  EXPECT_EQ(varve_state(nullptr, &number, nullptr, 0), VARVE_INVALID);
  EXPECT_EQ(varve_stats_read(nullptr, nullptr), VARVE_INVALID);
  EXPECT_EQ(varve_format_register(nullptr, nullptr, nullptr), VARVE_INVALID);
  EXPECT_EQ(varve_format_fingerprint(nullptr, 1, nullptr), VARVE_INVALID);
  EXPECT_EQ(varve_base_ids(nullptr, nullptr, nullptr, 0, &count), VARVE_INVALID);
  EXPECT_EQ(varve_base_id_of_hash(nullptr, 1, nullptr, 0, nullptr), VARVE_INVALID);
  EXPECT_EQ(varve_region_register(nullptr, nullptr, nullptr), VARVE_INVALID);
  EXPECT_EQ(varve_region_unregister(nullptr, 1), VARVE_INVALID);
  EXPECT_EQ(varve_layout_define(nullptr, nullptr, nullptr), VARVE_INVALID);
  EXPECT_EQ(varve_layout_undefine(nullptr, 1), VARVE_INVALID);
  EXPECT_EQ(varve_match_submit(nullptr, nullptr, &op), VARVE_INVALID);
  EXPECT_EQ(varve_match_peek(nullptr, 1, nullptr), VARVE_INVALID);
  EXPECT_EQ(varve_match_forget(nullptr, 1), VARVE_INVALID);
  EXPECT_EQ(varve_exists_submit(nullptr, nullptr, &op), VARVE_INVALID);
  EXPECT_EQ(varve_lease_renew(nullptr, 1, 1, 0, &op), VARVE_INVALID);
  EXPECT_EQ(varve_lease_release(nullptr, 1), VARVE_INVALID);
  EXPECT_EQ(varve_lease_left(nullptr, 1, &wide), VARVE_INVALID);
  EXPECT_EQ(varve_pull_submit(nullptr, nullptr, &op), VARVE_INVALID);
  EXPECT_EQ(varve_follow_submit(nullptr, nullptr, &op), VARVE_INVALID);
  EXPECT_EQ(varve_push_submit(nullptr, nullptr, &op), VARVE_INVALID);
  EXPECT_EQ(varve_push_layer(nullptr, 1, 0), VARVE_INVALID);
  EXPECT_EQ(varve_layers_done(nullptr, 1, &number), VARVE_INVALID);
  EXPECT_EQ(varve_wait_layer(nullptr, 1, 0, 0, nullptr, 0), VARVE_INVALID);
  EXPECT_EQ(varve_cancel(nullptr, 1), VARVE_INVALID);
  EXPECT_EQ(varve_quiesce(nullptr, 1, 0), VARVE_INVALID);
  EXPECT_EQ(varve_purge_submit(nullptr, nullptr, &op), VARVE_INVALID);
  EXPECT_EQ(varve_holds_submit(nullptr, 0, 0, &op), VARVE_INVALID);
  EXPECT_EQ(varve_event_fd(nullptr), -1);
  EXPECT_EQ(varve_poll(nullptr, nullptr, 0, &count), VARVE_INVALID);
  EXPECT_EQ(varve_wait(nullptr, 1, 0, nullptr), VARVE_INVALID);
  varve_completion_clear(nullptr);
}

}  // namespace
}  // namespace varve
