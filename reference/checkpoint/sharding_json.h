// How one rank was sharded, as JSON: for sharding_meta.json and for the manifests of ranks.
#pragma once

#include "checkpoint/json.h"
#include "tzmark/checkpoint.h"

namespace tzmark::checkpoint {

Json sharding_json(const Sharding& sharding);
// Throws CKP-005.
Sharding sharding_of(const Json& json);

}  // namespace tzmark::checkpoint
