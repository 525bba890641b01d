// The sharding of one rank as JSON, for sharding_meta.json and the manifests.
#pragma once

#include "checkpoint/json.h"
#include "tzmark/checkpoint.h"

namespace tzmark::checkpoint {

Json sharding_json(const Sharding& sharding);
// Throws CKP-005.
Sharding sharding_of(const Json& json);

}  // namespace tzmark::checkpoint
