// address: names into numbers, for those who must not wait for a resolver in a reactor's turn.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/base.h"

namespace varve {

inline constexpr uint32_t kNameAddressesMax = 16;  // of one name; what a resolver has more is left

enum class AddressKind : uint8_t { kNumber, kName };

// Whether it takes a resolver to connect there; "localhost" is 127.0.0.1 and takes none. kInvalid:
// it can never be right (no "host:port", a port that is none, a host that is no name). Asks nobody.
Result<AddressKind> address_kind(const std::string& address);

// The seam between the system's resolver and a test's.
class Resolver {
 public:
  virtual ~Resolver() = default;
  // "varve:7440" -> "10.0.0.7:7440" and more, in the order to try them: 1 to kNameAddressesMax.
  // Blocks for as long as the resolver takes. kUnavailable, with the reason: there is none, or none
  // yet.
  virtual Result<std::vector<std::string>> look_up(const std::string& address) = 0;
};

std::unique_ptr<Resolver> make_system_resolver();

}  // namespace varve
