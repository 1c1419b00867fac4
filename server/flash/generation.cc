// A row of a lineage says in which generation of its domain it was made; raising the domain ends
// all of them, so they go.
#include "server/flash/generation.h"

#include <algorithm>
#include <map>
#include <optional>

namespace varve::flash {

namespace {

DomainGeneration* find(Generations& rows, uint32_t domain, uint64_t lineage) {
  for (DomainGeneration& row : rows) {
    if (row.domain == domain && row.lineage == lineage) return &row;
  }
  return nullptr;
}

void drop_lineages(Generations& rows, uint32_t domain) {
  std::erase_if(rows, [domain](const DomainGeneration& row) {
    return row.domain == domain && row.lineage != 0;
  });
}

uint32_t lineage_rows(const Generations& rows) {
  return static_cast<uint32_t>(
      std::count_if(rows.begin(), rows.end(), [](const auto& row) { return row.lineage != 0; }));
}

// That has most rows of lineages, where there are any.
std::optional<uint32_t> most_lineages(const Generations& rows) {
  std::map<uint32_t, uint32_t> counts;
  for (const DomainGeneration& row : rows)
    counts[row.domain] += row.lineage != 0 ? 1 : 0;
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == counts.end() || most->second == 0) return std::nullopt;
  return most->first;
}

void take_row(Generations& rows, const DomainGeneration& row) {
  const uint32_t current = domain_generation(rows, row.domain);
  if (row.domain_generation < current) return;
  if (row.domain_generation > current) {
    drop_lineages(rows, row.domain);
    DomainGeneration* own = find(rows, row.domain, 0);
    if (own == nullptr) own = &rows.emplace_back(DomainGeneration{.domain = row.domain});
    own->domain_generation = row.domain_generation;
  }
  if (row.lineage == 0) return;
  DomainGeneration* known = find(rows, row.domain, row.lineage);
  if (known == nullptr) {
    rows.push_back(row);
  } else {
    known->lineage_generation = std::max(known->lineage_generation, row.lineage_generation);
  }
}

}  // namespace

uint32_t domain_generation(const Generations& rows, uint32_t domain) {
  for (const DomainGeneration& row : rows) {
    if (row.domain == domain && row.lineage == 0) return row.domain_generation;
  }
  return 0;
}

LineageMark current_mark(const Generations& rows, uint32_t domain, uint64_t lineage) {
  LineageMark mark{.domain = domain,
                   .domain_generation = domain_generation(rows, domain),
                   .lineage = lineage,
                   .lineage_generation = 0};
  for (const DomainGeneration& row : rows) {
    if (lineage != 0 && row.domain == domain && row.lineage == lineage) {
      mark.lineage_generation = row.lineage_generation;
    }
  }
  return mark;
}

bool is_old(const Generations& rows, const LineageMark& mark) {
  if (rows.empty()) return false;
  const LineageMark now = current_mark(rows, mark.domain, mark.lineage);
  if (mark.domain_generation != now.domain_generation) {
    return mark.domain_generation < now.domain_generation;
  }
  return mark.lineage_generation < now.lineage_generation;
}

uint32_t lineages_max(const DomainIds& domains) {
  static_assert(kLineageRowsMax >= kDomainsMax);
  VARVE_ASSERT(!domains.ids.empty() && domains.ids.size() <= kDomainsMax, domains.ids.size());
  return kLineageRowsMax / static_cast<uint32_t>(domains.ids.size());
}

Result<Generations> raised(const Generations& rows, uint32_t domain, uint64_t lineage,
                           uint32_t* generation, uint32_t lineage_rows_max) {
  VARVE_ASSERT(rows.size() <= kGenerationsMax, rows.size());
  VARVE_ASSERT(generation != nullptr);
  Generations table = rows;
  const LineageMark now = current_mark(rows, domain, lineage);
  const uint32_t before = lineage == 0 ? now.domain_generation : now.lineage_generation;
  if (before >= ~0u - 1) return Status::unsupported("a generation cannot be raised any further");
  if (lineage == 0) drop_lineages(table, domain);
  DomainGeneration* row = find(table, domain, lineage);
  if (row == nullptr) {
    const auto own = std::count_if(table.begin(), table.end(), [domain](const auto& other) {
      return other.domain == domain && other.lineage != 0;
    });
    const bool full =
        own >= std::ptrdiff_t{lineage_rows_max} || lineage_rows(table) >= kLineageRowsMax;
    if (lineage != 0 && full) {
      return Status::no_space(
          "all 32 generations of lineages, or the share of this domain, are in use, misspelt "
          "lineages included: purge the whole domain instead, which frees its rows");
    }
    if (table.size() == kGenerationsMax && lineage_rows(table) > kLineageRowsMax) {
      return Status::no_space(
          "all 64 generations are in use, by more lineages than this version gives a row: purge "
          "the domain that purged most of them, which frees theirs");
    }
    if (table.size() == kGenerationsMax) {
      return Status::no_space(
          "all 64 generations are in use, by domains that are not in the list of this node: "
          "restore that list, or make a domain, which gives them up");
    }
    row = &table.emplace_back(DomainGeneration{.domain = domain, .lineage = lineage});
  }
  *generation = before + 1;
  row->domain_generation = lineage == 0 ? *generation : now.domain_generation;
  row->lineage_generation = lineage == 0 ? 0 : *generation;
  return table;
}

Generations merged(const Generations& one, const Generations& other) {
  Generations table;
  for (const DomainGeneration& row : one)
    take_row(table, row);
  for (const DomainGeneration& row : other)
    take_row(table, row);
  while (table.size() > kGenerationsMax) {
    const std::optional<uint32_t> domain = most_lineages(table);
    if (!domain || domain_generation(table, *domain) == ~0u) break;
    take_row(table,
             {.domain = *domain, .domain_generation = domain_generation(table, *domain) + 1});
  }
  return table;
}

Generations kept(Generations rows, const DomainIds& domains) {
  std::erase_if(rows, [&](const DomainGeneration& row) { return domains.dropped(row.domain); });
  return rows;
}

uint32_t superblock_crc(Superblock super) {
  super.crc = 0;
  return crc32c(0, bytes_view(super));
}

Generations rows_of(const Superblock& super) {
  const uint32_t count = std::min(super.generation_count, kGenerationsMax);
  return {super.generations, super.generations + count};
}

void rows_set(Superblock& super, const Generations& rows) {
  VARVE_ASSERT(rows.size() <= kGenerationsMax, rows.size());
  std::fill(std::begin(super.generations), std::end(super.generations), DomainGeneration());
  std::copy(rows.begin(), rows.end(), super.generations);
  super.generation_count = static_cast<uint32_t>(rows.size());
}

}  // namespace varve::flash
