// Generations as tables (FORMAT 5.1): what a purge makes of one, and what several have in common.
//
// Pure. The questions about a table (current_mark, is_old) are on the door.
#pragma once

#include "common/base/base.h"
#include "server/flash/flash.h"

namespace varve::flash {

// The table after a purge of a lineage (0: of the domain), with its new generation. kNoSpace: no
// row is left for it. kUnsupported: it cannot be raised any further.
Result<Generations> raised(const Generations& rows, uint32_t domain, uint64_t lineage,
                           uint32_t* generation);
// The larger of each row. When that is more than kDomainsMax rows, a domain with rows of lineages
// is raised itself: more is dropped than was asked for, and nothing comes back.
Generations merged(const Generations& one, const Generations& other);

uint32_t superblock_crc(Superblock super);
Generations rows_of(const Superblock& super);
void rows_set(Superblock& super, const Generations& rows);

}  // namespace varve::flash
