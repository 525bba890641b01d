// The JSON files of a checkpoint: what they say, and how that is read and written.
//
// Parsing throws Error with the code that each says, whatever the text is. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/digest_file.h"
#include "tzmark/checkpoint.h"

namespace tzmark::checkpoint {

// More than any of these files has, so that a damaged or hostile one costs little.
inline constexpr std::uint64_t kRecordBytesMax = std::uint64_t{64} << 20;

// Throws TZE-ENV-006 for a record that readers would refuse because of its size.
void check_record(std::string_view text);

// Throws kUsage for 0 ranks, and for more than kWorldSizeMax.
void check_world_size(std::uint32_t world_size);

// Throws kUsage for what JSON cannot hold. parse throws CKP-003.
std::string serialize_state(const TrainingState& state);
TrainingState parse_state(std::string_view text);

// sharding_meta.json: how each rank was sharded.
struct ShardingMeta {
  std::vector<Sharding> shards;  // in the order of the ranks; or one alone, which all of them have
  std::uint32_t shared_by = 0;   // so many ranks in that case, which a small file may claim; 0: each has its own

  std::uint32_t world_size() const { return shared_by != 0 ? shared_by : static_cast<std::uint32_t>(shards.size()); }
  const Sharding& of(std::size_t rank) const { return shared_by != 0 ? shards.front() : shards[rank]; }
};
std::string serialize_sharding(const ShardingMeta& meta);
// The bytes of one rank's entry in serialize_sharding, or a few more.
std::uint64_t spelled_bytes(const Sharding& sharding);
// Reads both forms: with a list of shards, and with one strategy for all. Throws CKP-005.
ShardingMeta parse_sharding(std::string_view text);

struct FileRecord {
  std::string name;  // within the checkpoint: "rank_0/model.safetensors"
  FileDigest digest;

  friend bool operator==(const FileRecord&, const FileRecord&) = default;
};

// commit.json. It carries its own digest.
struct CommitRecord {
  std::string save_id;
  std::uint64_t step = 0;
  std::uint32_t world_size = 0;  // 0: not sharded
  std::uint64_t committed_unix_ns = 0;
  std::vector<FileRecord> files;  // all but itself
};
std::string serialize_commit(const CommitRecord& record);
CommitRecord parse_commit(std::string_view text);  // throws CKP-001

// rank_N/manifest.json: what one rank says that it has written.
struct RankManifest {
  std::string save_id;
  std::uint64_t step = 0;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 0;
  Sharding sharding;
  std::vector<FileRecord> files;
};
std::string serialize_manifest(const RankManifest& manifest);
RankManifest parse_manifest(std::string_view text);  // throws CKP-006

}  // namespace tzmark::checkpoint
