// kvctl policy: the settings that can be changed while the node runs.
#include "tools/kvctl/call.h"
#include "tools/kvctl/table.h"

namespace varve::kvctl {

namespace {

std::string policies_text(const v1::ListPoliciesResponse& list, const Paint& paint) {
  Table table({"NAME", ">NOW", ">AT START", "RANGE", "WHAT IT IS"});
  for (const v1::Policy& policy : list.policies()) {
    const Tone tone = policy.value() == policy.setting() ? Tone::kPlain : Tone::kWarn;
    table.row({printable(policy.name()), Cell(printable(policy.value()), tone),
               printable(policy.setting()), printable(policy.range()), printable(policy.what())});
  }
  return table.text(paint);
}

Outcome list_policies(Call& call) {
  v1::ListPoliciesResponse list;
  Outcome outcome = call.node.ask(v1::ListPoliciesRequest(), &list);
  return outcome.ok() ? call.show(list, policies_text(list, call.paint)) : outcome;
}

Outcome set_policy(Call& call) {
  v1::SetPolicyRequest request;
  request.set_name(call.arguments.name);
  request.set_value(call.arguments.value);
  v1::SetPolicyResponse set;
  Outcome outcome = call.node.ask(request, &set);
  if (!outcome.ok()) return outcome;
  const v1::Policy& policy = set.policy();
  return call.show(set, printable(policy.name() + " is " + policy.value() + ", was " +
                                  set.before() + "; the next start takes " + policy.setting()) +
                            "\n");
}

}  // namespace

Noun policy_noun() {
  return {"policy",
          "policies",
          "Settings that can be changed while the node runs: list, set",
          {{"list",
            "Each policy: its value now, at the start, its range",
            {},
            {"policy list"},
            list_policies},
           {"set",
            "Change one, until the next start",
            {{"NAME", "NAME", &Arguments::name, "as kvctl policy list has it", Need::kRequired},
             {"VALUE", "VALUE", &Arguments::value, "as the setting is written", Need::kRequired}},
            {"policy set repair_mb_per_s 400", "policy set log_level debug"},
            set_policy}}};
}

}  // namespace varve::kvctl
