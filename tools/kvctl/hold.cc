// kvctl leases: what clients keep from being evicted, or reserved: who, since when, until when.
#include "tools/kvctl/call.h"
#include "tools/kvctl/table.h"

namespace varve::kvctl {

namespace {

const char* kind_text(v1::HoldKind kind) {
  switch (kind) {
    case v1::HOLD_KIND_LEASE:
      return "lease";
    case v1::HOLD_KIND_RESERVATION:
      return "reservation";
    case v1::HOLD_KIND_PULL:
      return "pull";
    case v1::HOLD_KIND_FOLLOW:
      return "follow";
    default:
      return "unknown";
  }
}

std::string holds_text(const v1::ListHoldsResponse& list, const Paint& paint) {
  if (list.holds_size() == 0) return "nothing is held\n";
  Table table(
      {">HOLD", "KIND", "CLIENT", "DOMAIN", "SESSION", ">BLOCKS", ">BYTES", ">AGE", ">LEFT"});
  for (const v1::Hold& hold : list.holds()) {
    table.row({std::to_string(hold.hold()), kind_text(hold.kind()), printable(hold.client()),
               printable(hold.domain()), session_text(hold.session()), count_text(hold.blocks()),
               size_text(hold.bytes()), age_text(hold.age_ns()),
               hold.left_ns() == 0 ? "ending" : age_text(hold.left_ns())});
  }
  return table.text(paint);
}

Outcome list_holds(Call& call) {
  v1::ListHoldsResponse list;
  Outcome outcome = call.node.ask_all(v1::ListHoldsRequest(), &list);
  return outcome.ok() ? call.show(list, holds_text(list, call.paint)) : outcome;
}

}  // namespace

Noun hold_noun() {
  return {"leases",
          "holds",
          "What clients hold: leases, reservations, pulls, follows",
          {{"list",
            "What clients hold: leases, reservations, pulls, follows, in the order they began",
            {},
            {"leases", "--json leases | jq '.holds[] | select(.kind == \"HOLD_KIND_LEASE\")'"},
            list_holds}}};
}

}  // namespace varve::kvctl
