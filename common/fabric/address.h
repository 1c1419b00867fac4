// address: names into numbers, for those who must not wait for a resolver later.
//
// Blocks for as long as the resolver takes: call it before a reactor runs, never in its turn.
#pragma once

#include <string>

#include "common/base/base.h"

namespace varve {

// "localhost:7440" -> "127.0.0.1:7440"; an address that is numbers already stays as it is meant.
// kInvalid: no "host:port", or nobody knows the name; kUnavailable: the resolver has no answer yet.
Result<std::string> numeric_address(const std::string& address);

}  // namespace varve
