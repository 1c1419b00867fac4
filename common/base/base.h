// base: the words below all other words.
//
// Owns: Status/Result, assertions, the log, checksums and digests, byte helpers, intrusive lists
// and queues, fixed pools, strong ids, Random. Called by everything. Thread rule: values are free;
// pools, lists and Random belong to the core that made them; the log may be called from any thread.
// Invariants:
//   B1 nothing here allocates after construction, except the log and the digests.
//   B2 Random is a pure function of its seed, equal on every compiler.
#pragma once

#include "common/base/assert.h"     // IWYU pragma: export
#include "common/base/bytes.h"      // IWYU pragma: export
#include "common/base/hash.h"       // IWYU pragma: export
#include "common/base/intrusive.h"  // IWYU pragma: export
#include "common/base/log.h"        // IWYU pragma: export
#include "common/base/pool.h"       // IWYU pragma: export
#include "common/base/random.h"     // IWYU pragma: export
#include "common/base/status.h"     // IWYU pragma: export
