// host: what a daemon takes from the machine it runs on: its data folder, its limits, its files.
//
// Owns: the lock of the data folder, the identity and the list of targets kept in it, the reading
// of memory, cores and descriptors as this process may use them (containers included), the arena's
// mapping, and words to the service manager. Called by main and server/node, on main's thread
// unless said otherwise; nothing here is on the data path. Invariants:
//   H1 what identifies the node is made once, at the first start, and never replaced: a missing
//      domain.salt would make every id a stranger's, so that nothing is ever found again.
//   H2 a small file is replaced whole or not at all.
//   H3 a limit of any cgroup above this process counts, whatever the machine has.
//   H4 metrics replace metrics, what a power cut left of them or nothing: a mistyped path costs no
//      target, device or secret.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/base.h"
#include "common/model/model.h"
#include "common/time/time.h"
#include "server/config/config.h"

namespace varve {

// What went wrong before serving, in a sentence with its remedy, and with which exit code.
struct Failure {
  int exit_code = 0;  // 0 = none
  std::string text;
  bool ok() const { return exit_code == 0; }
};
Failure environment(std::string text);  // kExitEnvironment
// ": No space left on device" for an errno, nothing for 0.
std::string errno_suffix(int32_t errno_value);

// ---- files

// At most 1 MiB. False with errno when it cannot be read; ENOENT is an answer, not a fault.
[[nodiscard]] bool read_file(const std::string& path, std::string* content);
// A file, whole, that only its owner may read and write, who is this user or root; refused
// otherwise, with the remedy. Mode 0440 is taken in $CREDENTIALS_DIRECTORY, which systemd makes so.
// `*found` is false where there is none.
Failure read_secrets(const std::string& path, std::string* content, bool* found);
// A file of settings, whole; a failure is one of the setting (kExitUsage).
Failure load_config(const std::string& config_file, std::string* text);
enum class Durability : uint8_t { kNone, kPowerCut };
// Answers 0 or the errno of the first step that failed (H2).
[[nodiscard]] int32_t replace_file(const std::string& path, std::string_view content,
                                   Durability durability);
// Whether the metrics file may be made or replaced there; and the same with the deed. At any time,
// because another file may have come under its name since (H4).
Failure check_metrics(const std::string& path);
Failure replace_metrics(const std::string& path, std::string_view content);
bool exists(const std::string& path);
// The same path from whatever folder a later start begins; as it is written where that cannot be
// said in one line.
std::string absolute(const std::string& path);
// Whether two paths, of which nothing needs to be there, name the same place in the same folder.
bool same_place(const std::string& one, const std::string& other);
uint64_t file_bytes(const std::string& path);  // 0 = no file, or a device

// ---- the data folder

// Held as long as the process lives: two daemons on one folder would destroy each other's targets.
// Makes the folder, not its parents, durably.
Failure lock_folder(const std::string& folder);

struct Identity {
  std::byte node_uuid[16] = {};
  Digest domain_salt;   // secret: base ids are unguessable and differ from domain to domain
  bool is_new = false;  // made at this start
  // Of the domains of this node, rising, and the largest that one ever had; none, 0 = not known.
  std::vector<uint32_t> domain_ids = {};
  std::vector<uint32_t> domain_starts = {};  // as these: in which each was made
  uint32_t domain_id_last = 0;
  uint32_t domain_changes = 0;  // that their list has seen
};
Failure load_identity(const std::string& folder, Entropy& entropy, Identity* identity);  // H1
// The same for who only looks: where there is none, nothing is made, and `is_new` says so.
Failure look_identity(const std::string& folder, Identity* identity);
// `option`: which setting names the file.
Failure load_token(const std::string& option, const std::string& token_file, std::string* token);

// Boot generations, [first, end); end 0: they are not over.
struct MissedStarts {
  uint32_t first = 0, end = 0;
};
// The targets that this node had when it last started: by it a missing drive is told from a new
// one.
struct TargetRecord {
  uint32_t index = 0;
  std::byte uuid[16] = {};
  uint64_t capacity_bytes = 0;
  std::string path;  // where it was, absolute: by it a mistyped path is known from a loss
  // It was emptied to be taken out, and is no part of the node any more: nobody misses it, and what
  // it still holds counts no more.
  bool drained = false;
  // The operator wants it emptied, while the node ran: so does every start until it is taken back.
  bool draining = false;
  // What it saw of the purges of this node (flash::Witness).
  uint32_t from = 0;
  std::vector<MissedStarts> missed = {};
};
// A generation that a purge has reached (FORMAT 5.1), as the superblocks had it at the last start.
struct PurgedRecord {
  uint32_t domain = 0, domain_generation = 0;
  uint64_t lineage = 0;
  uint32_t lineage_generation = 0;
};
// What outlives any one target: no boot generation is ever given twice, whichever of them were
// there at a start, because attempts of different starts are told apart by it (I3).
struct TargetList {
  uint32_t boot_generation = 0;  // of the latest start; 0 = not known (version 1 had none)
  uint32_t slices = 0;           // of every target; 0 = not known, nor is the scheme
  Scheme scheme;                 // of every target
  std::vector<TargetRecord> records;
  std::vector<PurgedRecord> purged = {};  // so that no target brings back what all others saw go
  uint64_t salt_mark = 0;                 // of the domain's salt; 0 = not known
  // The latest start whose targets all counted it, so that it served; 0 = not known. One that ended
  // before has a generation, too.
  uint32_t served = 0;
  uint32_t domain_id_last = 0;  // as in Identity: so that no id is given twice, whatever is lost
  uint32_t domain_changes = 0;  // the same, so that an older list of them is told from the last
  uint32_t domain_id_seen = 0;  // above domain_id_last: drives told of it when lists were lost
};
// Tells one salt from another and nothing else of it; never 0.
uint64_t salt_mark(const Digest& salt);
// With another salt than that of the last start nothing would ever be hit.
Failure check_salt(const std::string& folder, const TargetList& list, const Digest& salt);
// An empty list at a first start, also at one that an earlier first start left unfinished.
Failure load_records(const std::string& folder, TargetList* list);
// The same of a node that has served: an absent list is a failure, because a new one would know of
// no start before.
Failure reload_records(const std::string& folder, TargetList* list);
Failure save_records(const std::string& folder, const TargetList& list);
std::string records_text(const TargetList& list);
// kUnsupported: a newer version's.
Result<TargetList> parse_records(std::string_view text);

// The formats that clients of this node came with: `formats/FINGERPRINT` in the data folder, each
// as it is encoded, so that they can be told apart after a restart too. Nothing depends on them.
struct KeptFormat {
  Digest fingerprint;
  std::vector<std::byte> canonical;  // the fingerprint is its SHA-256
};
// In the order of their fingerprints, at most `count_max`. What does not verify is left as it is
// and named in `odd`, and so is what is one too many.
Failure load_formats(const std::string& folder, uint32_t count_max,
                     std::vector<KeptFormat>* formats, std::vector<std::string>* odd);
Failure save_format(const std::string& folder, const KeptFormat& format);

// target-N.dat files of the folder that a daemon with so many of them leaves alone.
std::vector<std::string> unused_targets(const std::string& folder, uint32_t used);

// ---- limits

// `root` is where /proc and /sys begin; tests give a folder of their own.
Machine read_machine(const std::string& root);  // H3

struct DescriptorLimit {
  uint64_t before = 0, now = 0, hard = 0;
};
// Raises the soft limit to `wanted`, or as far as the hard one lets us.
DescriptorLimit raise_descriptors(uint64_t wanted);

// From here on a failed allocation, or a thread that is refused, is one sentence and
// kExitEnvironment, not an abort.
void name_out_of_memory();

// The calling thread, and those that it makes, leave the signals that stop the daemon, or switch
// a fault, to main's.
void leave_stop_signals();

// Words to the service manager (systemd's Type=notify): "READY=1", "STOPPING=1", "WATCHDOG=1".
// Answers 0, also where there is no manager, or an errno; waits a second at most.
[[nodiscard]] int32_t tell_manager(std::string_view words);

// The whole arena, mapped once and touched before serving: first touch is slow.
Result<ByteSpan> map_arena(uint64_t bytes);

}  // namespace varve
