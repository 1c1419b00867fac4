// Feeds arbitrary text to the list of domains, as it is and with a sum that holds. Whatever comes,
// it is refused, or it is a table that writes itself down again as it was read, knows each domain
// once, and takes changes.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "server/tenant/tenant.h"

namespace {

using namespace varve;

void check(bool good) {
  if (!good) std::abort();
}

std::string sealed(const std::string& text) {
  const Digest sum = Sha256().update(std::as_bytes(std::span(text))).finish();
  return text + "sum " + to_hex(sum.bytes) + "\n";
}

bool is_same(const Domains& one, const Domains& other) {
  return one.text() == other.text() && one.id_last() == other.id_last() &&
         one.changes() == other.changes() && one.all().size() == other.all().size();
}

void change(Domains table) {
  const Domains before = table;
  Digest salt;
  salt.bytes[31] = std::byte{0xfe};
  const bool added = table.add("fuzz-added", {salt, "a token of the fuzzer"}, 7).ok();
  if (!added) {
    check(is_same(table, before));
  } else {
    const Domain* own = table.find("fuzz-added");
    check(own != nullptr && own->id > before.id_last());  // T1
    check(table.drop("fuzz-added").ok());
    check(table.find("fuzz-added") == nullptr && table.id_last() > before.id_last());
  }
  check(!table.drop(kDomainNameDefault).ok());  // T4
}

void read(const std::string& text) {
  const Result<Domains> table = Domains(Digest(), "default").with_text(text);
  if (!table) return;
  check(table->all().size() <= kNodeDomainsMax);
  check(table->by_default().id == kDomainDefault);
  for (const Domain& domain : table->all()) {
    check(domain.id <= table->id_last() && is_domain_name(domain.name));
    check(table->find(domain.id) == &domain && table->find(domain.name) == &domain);  // T2
  }
  const Result<Domains> again = Domains(Digest(), "default").with_text(table->text());
  check(again.has_value() && is_same(*again, *table));
  change(*table);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  read(text);
  read(sealed(text));
  return 0;
}
