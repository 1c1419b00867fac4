// The border between varve_c.h and the client: sized structs, statuses, and the one catch.
//
// Used by the c_*.cc files only. What crosses: plain structs and numbers; no exception, no C++
// type.
#pragma once

#include <cstring>
#include <exception>
#include <utility>

#include "client/c_handle.h"
#include "client/varve_c.h"

namespace varve {

inline constexpr uint32_t kStructBytesMax = 4096;  // a larger struct_size is none

// What a call answers, with the text for varve_last_error().
struct Outcome {
  Outcome(Status s) : status(c_status(s.code())), why(s.what()) {}  // NOLINT(google-explicit-*)
  Outcome(varve_status s, const char* text) : status(s), why(text) {}
  static varve_status c_status(Code code) { return static_cast<varve_status>(code); }
  varve_status status;
  const char* why;
};

// Notes `why` for this thread when the call failed; answers the status.
varve_status tell(const Outcome& outcome);

// Every function of varve_c.h that is given a client is `body` inside of this.
template <class Body>
varve_status border(varve_client* client, Body body) noexcept {
  try {
    Handle::Call call(client);
    if (call.refused != VARVE_OK) return tell({call.refused, call.why()});
    return tell(body(*static_cast<Handle*>(client)));
  } catch (const std::exception&) {
    return tell({VARVE_INTERNAL, "an exception, of memory as a rule"});
  }
}
// And those without one.
template <class Body>
varve_status border(Body body) noexcept {
  try {
    return tell(body());
  } catch (const std::exception&) {
    return tell({VARVE_INTERNAL, "an exception, of memory as a rule"});
  }
}

// The bytes that the first version of a struct had. One that grew says here what it had then.
template <class T>
inline constexpr uint32_t kFirstBytes = sizeof(T);
template <>
inline constexpr uint32_t kFirstBytes<varve_options> = 888;
template <>
inline constexpr uint32_t kFirstBytes<varve_stats> = 312;
template <>
inline constexpr uint32_t kFirstBytes<varve_completion> = 200;

// Whether *to is of a version that we know how to write.
template <class T>
Status check_sized(const T* sized) {
  if (sized == nullptr) return Status::invalid("a null struct");
  if (sized->struct_size < kFirstBytes<T> || sized->struct_size > kStructBytesMax) {
    return Status::invalid("struct_size is of no version: use VARVE_INIT");
  }
  return Status();
}

// A caller's struct as one of ours: fields that it does not have are zero, what we do not know must
// be (I12).
template <class T>
Status read_sized(const T* from, T& to) {
  VARVE_RETURN_IF_ERROR(check_sized(from));
  const uint32_t size = from->struct_size;
  to = T{};
  std::memcpy(static_cast<void*>(&to), from, std::min<size_t>(size, sizeof(T)));
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  for (size_t at = sizeof(T); at < size; ++at) {
    if (bytes[at] != 0) return Status::unsupported("a field of a later version than this library");
  }
  return Status();
}

// As much of `from` as the caller has room for; what it has beyond is zero. Its size stays.
template <class T>
void write_sized(const T& from, T* to) {
  const uint32_t size = to->struct_size;
  std::memset(static_cast<void*>(to), 0, size);
  std::memcpy(static_cast<void*>(to), &from, std::min<size_t>(size, sizeof(T)));
  to->struct_size = size;
}

inline Status check_flags(uint32_t flags, uint32_t known) {
  if ((flags & ~known) == 0) return Status();
  return Status::unsupported("flags: a bit that this version does not know here");
}
inline Nanos or_default(uint64_t given, Nanos otherwise) {
  return given == 0 ? otherwise : given;
}

inline BaseId from_c(const varve_id& id) {
  BaseId out;
  std::memcpy(out.bytes.data(), id.bytes, sizeof id.bytes);
  return out;
}
inline varve_id to_c(const BaseId& id) {
  varve_id out;
  std::memcpy(out.bytes, id.bytes.data(), sizeof out.bytes);
  return out;
}
inline std::vector<BaseId> from_c(const varve_id* ids, uint32_t count) {
  std::vector<BaseId> out(count);
  if (count > 0) std::memcpy(static_cast<void*>(out.data()), ids, count * sizeof(varve_id));
  return out;
}
static_assert(sizeof(BaseId) == sizeof(varve_id) && sizeof(FollowTag) == sizeof(varve_follow_tag));
static_assert(kCodeCount == VARVE_INTERNAL + 1);  // a Code is a varve_status

}  // namespace varve
