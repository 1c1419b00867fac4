// hello: who may come in, as pure questions about one HELLO.
#pragma once

#include <string>
#include <string_view>

#include "common/wire/wire.h"
#include "server/session/session.h"

namespace varve {

enum class PeerPlace : uint8_t { kLoopback, kElsewhere };

// The domain of this HELLO's token, or why it is refused: credential, version, lane, credit. The
// credential comes first, so that a stranger learns nothing else (N2); `what` never contains it.
Result<uint32_t> check_hello(const wire::HelloView& hello, const Domains& domains,
                             uint64_t credit_bytes_min, PeerPlace peer);

// For a refused HELLO of another version: what this server speaks and what the client asked for.
std::string version_text(uint16_t client_min, uint16_t client_max);

// A peer's name as it may stand in a log line: printable ASCII, at most 64 characters.
std::string printable_name(std::string_view name);

}  // namespace varve
