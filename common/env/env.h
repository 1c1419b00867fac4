// env: the outside world, gathered: what above the seams never calls the system by itself.
//
// Owns nothing; a bundle of references handed to constructors by main, by the client and by the
// simulator. Coordinator, ObjectStore and Workers join it with the rooms that need them.
#pragma once

#include "common/fabric/fabric.h"
#include "common/time/time.h"

namespace varve {

struct Env {
  const Clock& clock;
  Entropy& entropy;
  Fabric& fabric;
};

}  // namespace varve
