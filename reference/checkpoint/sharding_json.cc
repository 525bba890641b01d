// sharding_meta.json, in both forms.
#include "checkpoint/sharding_json.h"

#include <algorithm>
#include <utility>

#include "checkpoint/json.h"
#include "checkpoint/records.h"

namespace tzmark::checkpoint {
namespace {

constexpr std::uint32_t kVersion = 2;
constexpr ErrorCode kCode = ErrorCode::kCheckpointShards;

Json strategy_json(const Sharding& sharding) {
  switch (sharding.strategy) {
    case Sharding::Strategy::kReplicated:
      return "Replicated";
    case Sharding::Strategy::kTensorParallel:
      return "TensorParallel";
    case Sharding::Strategy::kZeroPartitioned:
      break;
  }
  return {{"ZeroPartitioned", {{"stage", sharding.zero_stage}}}};
}

void parse_strategy(const Json& json, Sharding& sharding) {
  if (json == "Replicated") {
    sharding.strategy = Sharding::Strategy::kReplicated;
  } else if (json == "TensorParallel") {
    sharding.strategy = Sharding::Strategy::kTensorParallel;
  } else if (json.is_object() && json.size() == 1 && json.contains("ZeroPartitioned")) {
    sharding.strategy = Sharding::Strategy::kZeroPartitioned;
    sharding.zero_stage = unsigned_member<std::uint32_t>(json["ZeroPartitioned"], "stage", kCode);
  } else {
    throw Error(kCode, "the strategy " + json.dump() + " is not known");
  }
}

std::uint32_t parse_world_size(const Json& json) {
  const auto world_size = unsigned_member<std::uint32_t>(json, "world_size", kCode);
  if (world_size == 0 || world_size > kWorldSizeMax) {
    throw Error(kCode, fmt::format("a world_size of {}; 1 to {} are possible", world_size, kWorldSizeMax));
  }
  return world_size;
}

}  // namespace

Json sharding_json(const Sharding& sharding) {
  return {{"owned_params", sharding.owned_params},
          {"strategy", strategy_json(sharding)},
          {"split_dims", sharding.split_dims}};
}

Sharding sharding_of(const Json& json) {
  Sharding sharding;
  parse_strategy(member(json, "strategy", kCode), sharding);
  if (json.contains("owned_params")) {
    sharding.owned_params = container_member<decltype(sharding.owned_params)>(json, "owned_params", kCode);
  }
  if (json.contains("split_dims")) {
    if (!json["split_dims"].is_object()) throw Error(kCode, "split_dims is not an object");
    for (const auto& [name, dimension] : json["split_dims"].items()) {
      sharding.split_dims[name] = unsigned_of<std::uint64_t>(dimension, "a dimension of split_dims", kCode);
    }
  }
  return sharding;
}

void check_world_size(std::uint32_t world_size) {
  if (world_size == 0 || world_size > kWorldSizeMax) {
    throw Error(ErrorCode::kUsage, fmt::format("a world of {} ranks; 1 to {} are possible", world_size, kWorldSizeMax));
  }
}

std::uint64_t serialized_bytes(const Sharding& sharding) {
  Json shard = sharding_json(sharding);
  shard["world_size"] = shard["rank"] = kWorldSizeMax;
  // Indented as in the file.
  return Json{{"shards", Json::array({std::move(shard)})}}.dump(2).size();
}

std::string serialize_sharding(const ShardingMeta& meta) {
  Json shards = Json::array();
  for (std::uint32_t rank = 0; rank < meta.world_size(); ++rank) {
    Json shard = sharding_json(meta.of(rank));
    shard["world_size"] = meta.world_size();
    shard["rank"] = rank;
    shards.push_back(std::move(shard));
  }
  return serialize({{"version", kVersion}, {"world_size", meta.world_size()}, {"shards", std::move(shards)}});
}

ShardingMeta parse_sharding(std::string_view text) {
  return with_json(text, kCode, [](const Json& json) {
    const std::uint32_t world_size = parse_world_size(json);
    if (!json.contains("shards")) return ShardingMeta{{sharding_of(json)}, world_size};
    const Json& shards = json["shards"];
    if (!shards.is_array() || shards.size() != world_size) {
      throw Error(kCode, fmt::format("there are not {} shards, as world_size says", world_size));
    }
    ShardingMeta meta{std::vector<Sharding>(world_size), 0};
    std::vector<bool> seen(world_size);
    for (const Json& shard : shards) {
      const auto rank = unsigned_member<std::uint32_t>(shard, "rank", kCode);
      if (rank >= world_size || seen[rank] || parse_world_size(shard) != world_size) {
        throw Error(kCode, fmt::format("the shard of rank {} does not fit to the others", rank));
      }
      seen[rank] = true;
      meta.shards[rank] = sharding_of(shard);
    }
    return meta;
  });
}

}  // namespace tzmark::checkpoint
