// Core's formats: registered with each session anew, their tables by its scheme, and the base ids
// that are computed under them.
#include <algorithm>
#include <cinttypes>

#include "client/core.h"

namespace varve {

ClientFormat* Core::find_format(FormatId id) {
  return id == 0 || id > formats_.size() ? nullptr : formats_[id - 1].get();
}

Result<FormatId> Core::format(const Format& format) {
  VARVE_RETURN_IF_ERROR(format.validate());
  const Digest fingerprint = format.fingerprint();
  for (size_t i = 0; i < formats_.size(); ++i) {
    if (formats_[i]->fingerprint == fingerprint) return static_cast<FormatId>(i + 1);
  }
  if (formats_.size() >= kFormatsMax) return Status::overloaded("256 formats are registered");
  auto added = std::make_unique<ClientFormat>();
  added->format = format;
  added->fingerprint = fingerprint;
  for (const auto& layers : format.ranks) {
    if (auto table = ExtentTable::of(layers, Scheme{}); !table) return table.error();
  }
  if (session_.state() == SessionState::kReady) use_scheme(*added);
  formats_.push_back(std::move(added));
  register_formats();
  return static_cast<FormatId>(formats_.size());
}

// The tables follow from the daemon's scheme; those of earlier ones stay, as ops may hold them.
void Core::use_scheme(ClientFormat& format) {
  VARVE_ASSERT(scheme_.valid(), scheme_.k, scheme_.m);  // the session takes no other daemon
  const auto known = std::find_if(format.tables.begin(), format.tables.end(),
                                  [this](const auto& tables) { return tables->scheme == scheme_; });
  if (known != format.tables.end()) {
    format.current = known->get();
    return;
  }
  auto tables = std::make_unique<ClientFormat::Tables>();
  tables->scheme = scheme_;
  for (const auto& layers : format.format.ranks) {
    auto table = ExtentTable::of(layers, scheme_);
    if (!table) {
      format.answered = true;
      format.refused = Status::unsupported("the format has too many extents for the scheme");
      return log_refusal(format);
    }
    tables->ranks.push_back(*std::move(table));
  }
  VARVE_ASSERT(tables->ranks.size() == format.format.rank_count());
  VARVE_ASSERT(format.tables.size() < kSchemes.size());
  format.current = tables.get();
  format.tables.push_back(std::move(tables));
}

const ExtentTable& Core::table(FormatId id, uint32_t rank) {
  const ClientFormat* format = find_format(id);
  VARVE_ASSERT(format != nullptr && format->current != nullptr, id);
  VARVE_ASSERT(rank < format->current->ranks.size(), rank);
  return format->current->ranks[rank];
}

// One at a time: a few large ones would fill the urgent lane.
void Core::register_formats() {
  if (!session_.usable()) return;
  for (const auto& format : formats_) {
    if (format->answered) continue;
    if (format->register_op != 0) return;
    const uint64_t op = next_wire_op();
    const auto head = session_.encoder().format(op, format->format.encode());
    if (session_.send_urgent(head)) format->register_op = op;
    return;
  }
}

void Core::on_format_ok(uint64_t op, const wire::FormatOk& ok) {
  for (const auto& format : formats_) {
    if (format->register_op != op || format->answered) continue;
    VARVE_ASSERT(format->handle == 0 && format->refused.ok(), format->handle);
    format->answered = true;
    if (ok.code != 0) {
      const auto code = static_cast<Code>(ok.code);
      format->refused = Status(code, code == Code::kUnsupported
                                         ? "the daemon's node cannot hold blocks of this format"
                                         : "the daemon refused the format");
    } else if (ok.fingerprint != format->fingerprint) {
      format->refused = Status::unsupported("client and daemon compute different fingerprints");
    } else if (ok.format == 0) {
      format->refused = Status::invalid("FORMAT_OK without a handle");
    } else {
      format->handle = ok.format;
    }
    if (!format->refused.ok()) log_refusal(*format);
  }
  register_formats();
  wake_all();
}

void Core::log_refusal(ClientFormat& format) {
  if (format.refusal_logged) return;
  format.refusal_logged = true;
  uint64_t bytes_max = 0;
  for (uint32_t rank = 0; rank < format.format.rank_count(); ++rank)
    bytes_max = std::max(bytes_max, format.format.block_bytes(rank));
  logf(LogLevel::kError, "client",
       "format %016" PRIx64 " (lineage %s, %u ranks, blocks of up to %" PRIu64
       " bytes) is refused by the daemon at %s: %s (%s); every op of it ends with that",
       format.fingerprint.prefix64(), format.format.lineage.c_str(), format.format.rank_count(),
       bytes_max, options_.address.c_str(), code_name(format.refused.code()),
       format.refused.what());
}

Result<std::vector<BaseId>> Core::base_ids(FormatId format, const BaseId& parent,
                                           std::span<const uint32_t> tokens,
                                           std::span<const ConstByteSpan> extras) {
  const ClientFormat* f = find_format(format);
  if (f == nullptr) return Status::invalid("base_ids: unknown format");
  if (!session_.was_ready()) {
    return Status::unavailable("base_ids: the domain's salt is known once connected");
  }
  const uint32_t run = f->format.tokens_per_block;
  if (!extras.empty() && extras.size() != tokens.size() / run) {
    return Status::invalid("base_ids: extras: none, or one for each whole run");
  }
  for (const ConstByteSpan extra : extras) {
    if (extra.size() > kIdExtrasBytesMax) {
      return Status::invalid("base_ids: extras of a run are at most 4096 bytes");
    }
  }
  std::vector<BaseId> ids;
  BaseId last = parent;
  for (size_t at = 0; at + run <= tokens.size(); at += run) {
    last = base_id_of_tokens(f->fingerprint, session_.hello().domain_salt, last,
                             tokens.subspan(at, run),
                             extras.empty() ? ConstByteSpan() : extras[at / run]);
    ids.push_back(last);
  }
  return ids;
}

Result<BaseId> Core::base_id_of_hash(FormatId format, ConstByteSpan hash) {
  const ClientFormat* f = find_format(format);
  if (f == nullptr) return Status::invalid("base_id_of_hash: unknown format");
  if (!session_.was_ready()) {
    return Status::unavailable("base_id_of_hash: the domain's salt is known once connected");
  }
  return base_id_of_engine_hash(f->fingerprint, session_.hello().domain_salt, hash);
}

}  // namespace varve
