// The JSON files of a checkpoint, serialized and parsed.
//
// Parsing any text either succeeds or throws an Error with the given code. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/digest_file.h"
#include "tzmark/checkpoint.h"

namespace tzmark::checkpoint {

// A limit that no valid file reaches, so that a damaged or hostile one costs little memory.
inline constexpr std::uint64_t kRecordBytesMax = std::uint64_t{64} << 20;

// The highest sequence number: JSON of other programs has no larger exact integers.
inline constexpr std::uint64_t kSequenceMax = (std::uint64_t{1} << 53) - 1;

// Throws TZE-ENV-006 for a record that is too large for readers.
void check_record(std::string_view text);

// Throws kUsage for 0 ranks or more than kWorldSizeMax.
void check_world_size(std::uint32_t world_size);

// Throws kUsage for values that JSON cannot represent. parse_state throws CKP-003.
std::string serialize_state(const TrainingState& state);
TrainingState parse_state(std::string_view text);

// sharding_meta.json: how each rank was sharded.
struct ShardingMeta {
  std::vector<Sharding> shards;  // by rank, or a single one for all ranks
  std::uint32_t shared_by = 0;   // how many ranks share that one; 0: each has its own

  std::uint32_t world_size() const { return shared_by != 0 ? shared_by : static_cast<std::uint32_t>(shards.size()); }
  const Sharding& of(std::size_t rank) const { return shared_by != 0 ? shards.front() : shards[rank]; }
};
std::string serialize_sharding(const ShardingMeta& meta);
// Returns an upper bound for the bytes of one rank's entry in serialize_sharding.
std::uint64_t serialized_bytes(const Sharding& sharding);
// Parses both forms: a list of shards, or one strategy for all ranks. Throws CKP-005.
ShardingMeta parse_sharding(std::string_view text);

struct FileRecord {
  std::string name;  // within the checkpoint: "rank_0/model.safetensors"
  FileDigest digest;

  friend bool operator==(const FileRecord&, const FileRecord&) = default;
};

// commit.json, which contains its own digest.
struct CommitRecord {
  std::string save_id;
  std::uint64_t step = 0;
  std::uint32_t world_size = 0;  // 0: not sharded
  std::uint64_t committed_unix_ns = 0;
  std::vector<FileRecord> files;  // all except commit.json
  CheckpointOrigin origin = {};
  CommitMethod method = CommitMethod::kRename;
};
std::string serialize_commit(const CommitRecord& record);
CommitRecord parse_commit(std::string_view text);  // throws CKP-001

// rank_N/manifest.json: the files that one rank has written.
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
