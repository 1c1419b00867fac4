// What /proc, the build's cache and the options say.
#include "tools/kvbench/bars_declaration.h"

#include <sys/vfs.h>
#include <unistd.h>

#include <cstdio>

#include "common/erasure/erasure.h"
#include "common/fabric/fabric.h"
#include "tools/kvbench/machine.h"
#include "tools/kvbench/process.h"

namespace varve::kvbench {

namespace {

std::string file_system(const std::string& folder) {
  struct statfs info = {};
  if (::statfs(folder.c_str(), &info) != 0) return "unknown";
  char text[64];
  std::snprintf(text, sizeof(text), "type 0x%lx, %lu byte blocks",
                static_cast<unsigned long>(info.f_type), static_cast<unsigned long>(info.f_bsize));
  return text;
}

const char* coding_loop() {
  return Kernel::loops().back() == Kernel::Loop::kGfni ? "GFNI and AVX-512" : "ISA-L's";
}

std::string size_text(uint64_t bytes) {
  return std::to_string(bytes / kMiB) + " MiB";
}

}  // namespace

BarsDeclaration declare_bars(const BarsDeclarationInput& input) {
  const std::string cache = build_cache();
  return {
      {"cpu", cpu_model()},
      {"cores", std::to_string(::sysconf(_SC_NPROCESSORS_ONLN)) + ", nothing pinned"},
      {"memory", memory_text()},
      {"load_average", trimmed(read_file("/proc/loadavg"))},
      {"kernel", kernel()},
      {"huge_pages", huge_pages()},
      {"compiler", std::string("g++ or clang++ ") + __VERSION__},
      {"flags", cache_value(cache, "CMAKE_CXX_FLAGS") +
                    " -march=" + cache_value(cache, "VARVE_MARCH") + ", sanitizers " +
                    cache_value(cache, "VARVE_SANITIZE")},
      {"io_backend", io_backend()},
      {"fabric", "tcp over loopback, TCP_NODELAY, socket buffers autotuned"},
      {"congestion_control", LinkOptions().congestion + " (system default: " +
                                 trimmed(read_file("/proc/sys/net/ipv4/tcp_congestion_control")) +
                                 ")"},
      {"lanes", "1 urgent, " + std::to_string(input.lanes) + " bulk; the raw socket has " +
                    std::to_string(input.lanes) + " connections"},
      {"extent_bytes", std::to_string(input.shape.layer_bytes) + " (one layer), payloads of " +
                           std::to_string(kPieceBytes)},
      {"working_set", size_text(input.shape.bytes()) + ": " + std::to_string(input.shape.blocks) +
                          " blocks of " + std::to_string(input.shape.layers) +
                          " layers, one pull; flash_pull: twice as many"},
      {"scatter", "pages of " + std::to_string(kPageOfLayerBytes) +
                      " bytes, none beside the next; memory mapped and touched once"},
      {"process_split",
       "daemon (1 shard) and client are two processes, so are both ends of the "
       "raw socket"},
      {"source", "tcp_dram_pull: DRAM of the daemon; flash_pull: its targets, files O_DIRECT"},
      {"file_system", file_system(input.folder)},
      {"queue_depth",
       "flash: at most 20 MiB in progress a pull (5 windows of 4 MiB), being read or "
       "sent, at most 2 MiB of it at each target, by requests of 256 KiB; the ceiling has 32 such "
       "requests"},
      {"verification",
       "on: CRC32C of every extent at the daemon's device read and at the client; "
       "the ceilings verify nothing"},
      {"codec", "none (raw)"},
      {"erasure_coding", "1+0; bars that begin with ec_: 2+1 and 4+2, as each says"},
      {"coding_loop", coding_loop()},
      {"ONE_DISK",
       "all targets of all daemons are files on one disk. A coded push writes (k+m)/k times as "
       "much "
       "to it as an uncoded one: 1.5 times under 2+1, so where the disk is the limit ec_push_2+1 "
       "cannot be above 0.67; a degraded pull reads from the same disk what it rebuilds from"},
      {"rounds", std::to_string(input.rounds) + ", ceiling and pull alternate, ratio by round"},
      {"mode", input.quick ? "quick: smaller and fewer rounds, not for publication" : "full"},
      {"omissions",
       "no second machine, no RDMA or shared memory, no GPU memory; no pulls beside "
       "pushes; the rate of an uncoded push is not a bar, nor is a percentile but against "
       "a healthy node's; other load on the machine is not excluded, only shared by both "
       "sides of a ratio"},
  };
}

}  // namespace varve::kvbench
