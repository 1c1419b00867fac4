// A row of a lineage says in which generation of its domain it was made; raising the domain ends
// all of them, so they go.
#include "server/flash/generation.h"

#include <algorithm>

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

Result<Generations> raised(const Generations& rows, uint32_t domain, uint64_t lineage,
                           uint32_t* generation) {
  VARVE_ASSERT(rows.size() <= kDomainsMax, rows.size());
  VARVE_ASSERT(generation != nullptr);
  Generations table = rows;
  const LineageMark now = current_mark(rows, domain, lineage);
  const uint32_t before = lineage == 0 ? now.domain_generation : now.lineage_generation;
  if (before >= ~0u - 1) return Status::unsupported("a generation cannot be raised any further");
  *generation = before + 1;
  if (lineage == 0) drop_lineages(table, domain);
  DomainGeneration* row = find(table, domain, lineage);
  if (row == nullptr) {
    if (table.size() == kDomainsMax) {
      return Status::no_space("all 64 generations are in use: purge the whole domain instead");
    }
    row = &table.emplace_back(DomainGeneration{.domain = domain, .lineage = lineage});
  }
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
  while (table.size() > kDomainsMax) {
    const auto any = std::find_if(table.begin(), table.end(),
                                  [](const DomainGeneration& row) { return row.lineage != 0; });
    VARVE_ASSERT(any != table.end());  // this node has one domain
    DomainGeneration own{.domain = any->domain,
                         .domain_generation = domain_generation(table, any->domain) + 1};
    take_row(table, own);
  }
  return table;
}

uint32_t superblock_crc(Superblock super) {
  super.crc = 0;
  return crc32c(0, bytes_view(super));
}

Generations rows_of(const Superblock& super) {
  const uint32_t count = std::min(super.generation_count, kDomainsMax);
  return {super.generations, super.generations + count};
}

void rows_set(Superblock& super, const Generations& rows) {
  VARVE_ASSERT(rows.size() <= kDomainsMax, rows.size());
  std::fill(std::begin(super.generations), std::end(super.generations), DomainGeneration());
  std::copy(rows.begin(), rows.end(), super.generations);
  super.generation_count = static_cast<uint32_t>(rows.size());
}

}  // namespace varve::flash
