// Generations as tables (FORMAT 5.1): what several have in common, and where they stand.
//
// Pure. What else is asked of a table is on the door.
#pragma once

#include "common/base/base.h"
#include "server/flash/flash.h"

namespace varve::flash {

// The larger of each row. When that is more rows than a superblock has, the domain that has most of
// them by its lineages is raised itself: more of it is dropped than was asked for, and nothing
// comes back. More than that all the same: of more domains than a node can have. An older version
// gave more rows to lineages than raised() does: those stay.
Generations merged(const Generations& one, const Generations& other);

uint32_t superblock_crc(Superblock super);
Generations rows_of(const Superblock& super);
void rows_set(Superblock& super, const Generations& rows);

}  // namespace varve::flash
