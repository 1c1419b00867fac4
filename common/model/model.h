// model: formats, fingerprints, base ids, attempts, the extent table, and sums by domain.
//
// Owns: the words of docs/FORMAT.md sections 1 to 4 as values and pure functions; golden vectors in
// tests/vectors/. Called by client and server. Thread rule: values, free.
// Invariants:
//   M1 equal inputs give equal bytes on every machine and release (golden vectors).
//   M2 decode(encode(f)) == f, and decode refuses everything that encode cannot produce.
#pragma once

#include "common/model/domain_sum.h"    // IWYU pragma: export
#include "common/model/extent_table.h"  // IWYU pragma: export
#include "common/model/format.h"        // IWYU pragma: export
#include "common/model/id.h"            // IWYU pragma: export
#include "common/model/scheme.h"        // IWYU pragma: export
