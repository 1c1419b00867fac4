// Options of the C door: from the C struct to those of a client.
#pragma once

#include "client/varve.h"
#include "client/varve_c.h"

namespace varve {

inline constexpr uint32_t kBreakerFailuresDefault = 5;

// kInvalid for texts without an end and a log level that is none; the rest is Client::open's.
Status client_options(const varve_options& from, ClientOptions& to, LogLevel& log);

}  // namespace varve
