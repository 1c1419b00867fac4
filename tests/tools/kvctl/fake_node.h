// FakeNode: a control plane whose answers a test fills in, and what it was asked; and kvctl run
// against it, with what it printed.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/kvctl/kvctl.h"
#include "tools/kvctl/node_client.h"

namespace varve::kvctl {

// What one run said.
struct Said {
  Exit exit = Exit::kDone;
  std::string out, err;
  nlohmann::json json() const;   // of `out`
  nlohmann::json error() const;  // of `err`
};

// As a script runs it; with `typed` as somebody at a terminal who types that.
Said run_kvctl(const std::vector<std::string>& arguments, const std::string& typed = {});

class FakeNode {
 public:
  FakeNode();
  ~FakeNode();
  Said kvctl(std::vector<std::string> arguments, const std::string& typed = {});
  // From now on that call is answered so; `code` as in the proto, "OK" takes it back.
  void refuse(const std::string& rpc, const std::string& code, const std::string& text);
  // From now on the connection ends while that call is carried out.
  void cut(const std::string& rpc) { cut_ = rpc; }

  std::string address;
  std::string authorization;       // of the last call
  std::vector<std::string> asked;  // the calls by name

// The last request of each call, and its answers: page n is the one to cursor n.
#define X(Name)                                            \
  v1::Name##Request Name##_request;                        \
  std::vector<v1::Name##Response> Name##_pages;            \
  v1::Name##Response& Name##_answer() {                    \
    if (Name##_pages.empty()) Name##_pages.emplace_back(); \
    return Name##_pages.front();                           \
  }
  VARVE_KVCTL_RPCS(X)
#undef X

 private:
  struct Service;
  std::map<std::string, std::pair<std::string, std::string>> refusals_;  // by call: code, text
  std::string cut_;
  std::unique_ptr<Service> service_;
};

}  // namespace varve::kvctl
