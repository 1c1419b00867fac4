// Memory of the C door: a varve_blocks as what the client's requests want.
#pragma once

#include "client/c_handle.h"

namespace varve {

struct BlocksOf {
  std::vector<BaseId> ids;  // empty when the caller gave none
  std::vector<uint32_t> slots;
};
// Checks what can be read from where; what memory means is the op's to say. Sets layout or buffers,
// and count, of `op`.
Status read_blocks(const Handle& handle, const varve_blocks& blocks, BlocksOf& out, HandleOp& op);

}  // namespace varve
