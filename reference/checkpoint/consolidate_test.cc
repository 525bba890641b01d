// Tests of putting shards together and of dealing them out anew.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <climits>
#include <filesystem>
#include <utility>

#include "testing/faults/system_calls.h"
#include "testing/files/checkpoint_models.h"
#include "tzmark/safetensors.h"

namespace tzmark {
namespace {

using test::Bytes;
using test::caught;
using test::content_of;
using test::failure;
using test::small_model;
using test::small_optimizer;
using test::state_at;
using test::ThreadGroup;
using testing::HasSubstr;
using Strategy = Sharding::Strategy;

struct Shard {
  test::Model model, optimizer;
};

Sharding by(Strategy strategy, std::map<std::string, std::uint64_t> split_dims = {}) {
  Sharding sharding;
  sharding.strategy = strategy;
  sharding.split_dims = std::move(split_dims);
  return sharding;
}

void save(const std::string& directory, const std::vector<Shard>& shards, const Sharding& sharding,
          const CheckpointOptions& options = {}) {
  std::filesystem::create_directories(std::filesystem::path(directory).parent_path());
  ThreadGroup group("id-1", static_cast<unsigned>(shards.size()));
  std::vector<std::unique_ptr<AsyncCheckpointer>> ranks;
  for (std::uint32_t rank = 0; rank < shards.size(); ++rank) {
    ranks.push_back(std::make_unique<AsyncCheckpointer>(options));
    ranks.back()->save_distributed(directory, rank, static_cast<std::uint32_t>(shards.size()), shards[rank].model,
                                   shards[rank].optimizer, state_at(9), sharding, group.group());
  }
  for (const auto& rank : ranks) rank->wait();
}

std::string consolidation_error(const std::vector<Shard>& shards, const Sharding& sharding) {
  const test::TestDirectory directory;
  save(directory / "from/in", shards, sharding);
  EXPECT_EQ(caught([&] { consolidate_checkpoint(directory / "from/in", directory / "out"); }),
            failure(ErrorCode::kCheckpointShards));
  EXPECT_EQ(test::entries_of(directory), (std::vector<std::string>{"from"}));
  return test::message_of([&] { consolidate_checkpoint(directory / "from/in", directory / "out"); });
}

// Tensors of three dimensions, whose parts along one are cut out element by element.
Bytes cut(const Bytes& whole, std::vector<std::uint64_t> shape, std::size_t along, std::uint64_t begin,
          std::uint64_t end, std::size_t item_bytes) {
  Bytes part;
  for (std::uint64_t i = 0; i < shape[0]; ++i) {
    for (std::uint64_t j = 0; j < shape[1]; ++j) {
      for (std::uint64_t k = 0; k < shape[2]; ++k) {
        const std::uint64_t at[] = {i, j, k};
        if (at[along] < begin || at[along] >= end) continue;
        const auto from = whole.begin() + static_cast<std::ptrdiff_t>(((i * shape[1] + j) * shape[2] + k) * item_bytes);
        part.insert(part.end(), from, from + static_cast<std::ptrdiff_t>(item_bytes));
      }
    }
  }
  return part;
}

// w of shape 4, 6, 10 is cut unevenly along a dimension; its optimizer states follow, its count of steps does not.
struct TensorParallelCase {
  std::vector<std::uint64_t> shape = {4, 6, 10};
  Bytes w = test::random_bytes(4 * 6 * 10 * 4, 1), m = test::random_bytes(4 * 6 * 10 * 4, 2);
  std::vector<Shard> shards;

  TensorParallelCase(std::size_t along, std::vector<std::uint64_t> ends) {
    std::uint64_t begin = 0;
    for (const std::uint64_t end : ends) {
      auto& shard = shards.emplace_back();
      auto part = shape;
      part[along] = end - begin;
      shard.model.add("norm", "float16", {5}, 3);
      shard.model.add("w", "float32", part, cut(w, shape, along, begin, end, 4));
      shard.optimizer.add("w.m", "float32", part, cut(m, shape, along, begin, end, 4));
      shard.optimizer.add("w.step", "int64", {}, 4);
      shard.optimizer.add("norm.m", "float32", {5}, 5);
      begin = end;
    }
  }
};

TEST(Consolidate, JoinsTensorParallelShardsAlongEveryDimension) {
  for (const std::size_t along : {0U, 1U, 2U}) {
    for (const auto format : {CheckpointOptions::Format::kSafetensors, CheckpointOptions::Format::kTensors}) {
      const test::TestDirectory directory;
      const std::uint64_t size = TensorParallelCase(0, {4}).shape[along];
      const TensorParallelCase parallel(along, {1, 3, size});
      CheckpointOptions options;
      options.format = format;
      save(directory / "from/in", parallel.shards, by(Strategy::kTensorParallel, {{"w", along}}), options);
      consolidate_checkpoint(directory / "from/in", directory / "out", {}, options);
      verify_checkpoint(directory / "out");
      const LoadedCheckpoint out = load_checkpoint(directory / "out");
      EXPECT_EQ(out.state, state_at(9));
      EXPECT_EQ(content_of(out.model).at("w"), parallel.w);
      EXPECT_EQ(content_of(out.model).at("norm"), test::random_bytes(10, 3));
      EXPECT_EQ(content_of(out.optimizer).at("w.m"), parallel.m);
      EXPECT_EQ(test::kinds_of(out.optimizer).at("w.m").second, parallel.shape);
      EXPECT_EQ(content_of(out.optimizer).at("w.step"), test::random_bytes(8, 4));
      EXPECT_EQ(out.optimizer.size(), 3U);
    }
  }
}

TEST(Reshard, CutsTensorParallelShardsForAnotherWorldAndBack) {
  for (const std::size_t along : {0U, 1U, 2U}) {
    const test::TestDirectory directory;
    const std::uint64_t size = TensorParallelCase(0, {4}).shape[along];
    const TensorParallelCase parallel(along, {1, size});
    save(directory / "from/in", parallel.shards, by(Strategy::kTensorParallel, {{"w", along}}));
    reshard_checkpoint(directory / "from/in", directory / "two", 2);
    verify_checkpoint(directory / "two");
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      const LoadedCheckpoint shard = load_distributed_checkpoint(directory / "two", rank, 2);
      const std::uint64_t begin = size / 2 * rank, end = size / 2 * (rank + 1);
      EXPECT_EQ(content_of(shard.model).at("w"), cut(parallel.w, parallel.shape, along, begin, end, 4));
      EXPECT_EQ(content_of(shard.optimizer).at("w.m"), cut(parallel.m, parallel.shape, along, begin, end, 4));
      EXPECT_EQ(content_of(shard.optimizer).at("w.step"), test::random_bytes(8, 4));
      EXPECT_EQ(shard.sharding->split_dims.at("w"), along);
    }
    EXPECT_EQ(caught([&] { reshard_checkpoint(directory / "from/in", directory / "seven", 7); }),
              failure(ErrorCode::kUsage));
    std::filesystem::create_directory(directory / "back");
    consolidate_checkpoint(directory / "two", directory / "back/out");
    EXPECT_EQ(content_of(load_checkpoint(directory / "back/out").model).at("w"), parallel.w);
  }
}

TEST(Consolidate, RefusesTensorParallelShardsThatDoNotFit) {
  const Sharding sharding = by(Strategy::kTensorParallel, {{"w", 0}});
  TensorParallelCase missing(0, {2, 4});
  missing.shards[1].model.add("only.here", "uint8", {1}, 1);
  EXPECT_THAT(consolidation_error(missing.shards, sharding), HasSubstr("rank 0 lacks 'only.here'"));
  TensorParallelCase state(0, {2, 4});
  state.shards[0].optimizer.add("w.v", "uint8", {1}, 1);
  EXPECT_THAT(consolidation_error(state.shards, sharding), HasSubstr("rank 1 lacks 'w.v'"));
  TensorParallelCase different(0, {2, 4});
  different.shards[0].model.add("b", "uint8", {3}, 1);
  different.shards[1].model.add("b", "uint8", {3}, 2);
  EXPECT_THAT(consolidation_error(different.shards, sharding), HasSubstr("different tensors 'b'"));
  EXPECT_THAT(consolidation_error(TensorParallelCase(0, {1, 4}).shards, by(Strategy::kTensorParallel, {{"w", 1}})),
              HasSubstr("'w' of rank 1 is float32 of shape [3, 6, 10]"));
  EXPECT_THAT(consolidation_error(TensorParallelCase(0, {2, 4}).shards, by(Strategy::kTensorParallel, {{"w", 3}})),
              HasSubstr("along dimension 3"));
  EXPECT_THAT(consolidation_error(TensorParallelCase(0, {2, 4}).shards, by(Strategy::kTensorParallel, {{"none", 0}})),
              HasSubstr("rank 0 lacks 'none'"));
}

std::vector<Shard> replicas() {
  std::vector<Shard> shards(3);
  for (Shard& shard : shards) shard = {small_model(4), small_optimizer(4)};
  return shards;
}

TEST(Consolidate, TakesAReplicaAfterComparingThemAll) {
  const test::TestDirectory directory;
  save(directory / "from/in", replicas(), by(Strategy::kReplicated));
  consolidate_checkpoint(directory / "from/in", directory / "out");
  const LoadedCheckpoint out = load_checkpoint(directory / "out");
  EXPECT_EQ(content_of(out.model), small_model(4).content());
  EXPECT_EQ(content_of(out.optimizer), small_optimizer(4).content());
  auto different = replicas();
  different[2].model = small_model(5);
  EXPECT_THAT(consolidation_error(different, by(Strategy::kReplicated)), HasSubstr("ranks 0 and 2"));
  auto missing = replicas();
  missing[1].model.add("more", "uint8", {1}, 1);
  EXPECT_THAT(consolidation_error(missing, by(Strategy::kReplicated)), HasSubstr("rank 0 lacks 'more'"));
  reshard_checkpoint(directory / "from/in", directory / "two", 2);
  EXPECT_EQ(content_of(load_distributed_checkpoint(directory / "two", 1, 2).model), small_model(4).content());
}

std::vector<Shard> partitions() {
  std::vector<Shard> shards(3);
  for (std::uint64_t rank = 0; rank < 3; ++rank) {
    const std::string name = "layer." + std::to_string(rank);
    shards[rank].model.add(name, "float32", {100 + rank, 3}, rank);
    shards[rank].optimizer.add(name + ".m", "float32", {100 + rank, 3}, 10 + rank);
    shards[rank].optimizer.add("step", "int64", {}, 7);
  }
  return shards;
}

TEST(Consolidate, UnitesWhatZeroHasPartitioned) {
  const test::TestDirectory directory;
  save(directory / "from/in", partitions(), by(Strategy::kZeroPartitioned));
  consolidate_checkpoint(directory / "from/in", directory / "out");
  const LoadedCheckpoint out = load_checkpoint(directory / "out");
  ASSERT_EQ(out.model.size(), 3U);
  EXPECT_EQ(content_of(out.model).at("layer.2"), test::random_bytes(102 * 3 * 4, 2));
  EXPECT_EQ(out.optimizer.size(), 4U);
  EXPECT_EQ(SafetensorsReader::open(directory / "out/model.safetensors").metadata(), torch_metadata());
  auto conflict = partitions();
  conflict[2].model.add("layer.0", "float32", {100, 3}, 99);
  EXPECT_THAT(consolidation_error(conflict, by(Strategy::kZeroPartitioned)),
              HasSubstr("ranks 0 and 2 have different tensors 'layer.0'"));
  auto shape = partitions();
  shape[1].optimizer.add("layer.0.m", "float32", {50, 6}, 10);
  EXPECT_THAT(consolidation_error(shape, by(Strategy::kZeroPartitioned)), HasSubstr("'layer.0.m'"));
  Sharding promises = by(Strategy::kZeroPartitioned);
  promises.owned_params = {"layer.0"};
  EXPECT_THAT(consolidation_error(partitions(), promises), HasSubstr("rank 1 lacks 'layer.0'"));
}

TEST(Reshard, DealsZeroPartitionsOutByBytesAndNothingGetsLost) {
  for (const std::uint32_t world_size : {1U, 2U, 5U}) {
    const test::TestDirectory directory;
    save(directory / "from/in", partitions(), by(Strategy::kZeroPartitioned));
    reshard_checkpoint(directory / "from/in", directory / "new", world_size);
    verify_checkpoint(directory / "new");
    std::size_t tensors = 0;
    for (std::uint32_t rank = 0; rank < world_size; ++rank) {
      const LoadedCheckpoint shard = load_distributed_checkpoint(directory / "new", rank, world_size);
      tensors += shard.model.size();
      EXPECT_EQ(shard.optimizer.size(), shard.model.size() + 1);
      for (const CheckpointTensor& tensor : shard.model) {
        EXPECT_EQ(content_of(shard.optimizer).count(tensor.name + ".m"), 1U);
      }
    }
    EXPECT_EQ(tensors, 3U);
    std::filesystem::create_directory(directory / "back");
    consolidate_checkpoint(directory / "new", directory / "back/out");
    EXPECT_EQ(content_of(load_checkpoint(directory / "back/out").model).at("layer.1"), test::random_bytes(101 * 12, 1));
  }
}

TEST(Reshard, LeavesTheModelWholeWhereOnlyTheOptimizerIsPartitioned) {
  const test::TestDirectory directory;
  auto shards = replicas();
  for (Shard& shard : shards) shard.optimizer = {};
  shards[1].optimizer = small_optimizer(4);
  Sharding sharding = by(Strategy::kZeroPartitioned);
  sharding.zero_stage = 1;
  save(directory / "from/in", shards, sharding);
  reshard_checkpoint(directory / "from/in", directory / "two", 2);
  std::size_t states = 0;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const LoadedCheckpoint shard = load_distributed_checkpoint(directory / "two", rank, 2);
    EXPECT_EQ(content_of(shard.model), small_model(4).content());
    states += shard.optimizer.size();
  }
  EXPECT_EQ(states, 2U);
}

TEST(Reshard, RefusesWhatRecordsCannotHoldBeforeItWritesAnything) {
  const test::TestDirectory directory;
  save(directory / "from/in", partitions(), by(Strategy::kZeroPartitioned));
  const TensorParallelCase parallel(0, {2, 4});
  save(directory / "from/parallel", parallel.shards, by(Strategy::kTensorParallel, {{"w", 0}}));
  std::atomic<unsigned> changes = 0;
  CheckpointOptions to;
  const auto reshard = [&](const char* name, std::uint32_t world_size) {
    const test::SystemCalls calls([&](const test::Call& call) {
      if (call.kind == test::Call::Kind::kChange) ++changes;
      return true;
    });
    return caught([&] { reshard_checkpoint(directory / name, directory / "out", world_size, {}, to); });
  };
  for (const std::uint32_t world_size : {0U, kWorldSizeMax + 1, 4'000'000'000U}) {
    EXPECT_EQ(reshard("from/in", world_size), failure(ErrorCode::kUsage));
  }
  EXPECT_EQ(reshard("from/parallel", 3), failure(ErrorCode::kUsage));
  to.threads = CheckpointOptions::kThreadsMax + 1;
  EXPECT_EQ(reshard("from/in", 2), failure(ErrorCode::kUsage));
  to.threads = 1;
  // In the first stages every rank lists every parameter: 65,536 ranks times 40 names of 30 bytes pass 64 MiB.
  Shard many;
  for (int i = 0; i < 40; ++i) many.model.add("a.parameter.of.thirty.bytes." + std::to_string(10 + i), "uint8", {1}, 1);
  Sharding sharding = by(Strategy::kZeroPartitioned);
  sharding.zero_stage = 1;
  std::vector<Shard> shards;
  shards.push_back(std::move(many));
  save(directory / "from/many", shards, sharding);
  EXPECT_EQ(reshard("from/many", kWorldSizeMax), failure(ErrorCode::kResource));
  EXPECT_EQ(changes, 0U);
  EXPECT_EQ(test::entries_of(directory), (std::vector<std::string>{"from"}));
}

TEST(Reshard, ListsNoParametersWhereEveryRankHasThemAll) {
  const test::TestDirectory directory;
  save(directory / "from/in", replicas(), by(Strategy::kReplicated));
  reshard_checkpoint(directory / "from/in", directory / "two", 2);
  EXPECT_TRUE(load_distributed_checkpoint(directory / "two", 1, 2).sharding->owned_params.empty());
}

TEST(Consolidate, FindsDamageBeforeItWritesAnything) {
  const test::TestDirectory directory;
  save(directory / "from/in", replicas(), by(Strategy::kReplicated));
  Bytes bytes = test::read_whole(directory / "from/in/rank_2/optimizer.safetensors");
  bytes.back() ^= std::byte{1};
  test::write_whole(directory / "from/in/rank_2/optimizer.safetensors", bytes);
  EXPECT_EQ(caught([&] { consolidate_checkpoint(directory / "from/in", directory / "out"); }),
            failure(ErrorCode::kCheckpointDamaged));
  EXPECT_FALSE(std::filesystem::exists(directory / "out"));
}

TEST(Consolidate, RefusesToPutItsResultBesideItsSource) {
  const test::TestDirectory directory;
  save(directory / "from/in", replicas(), by(Strategy::kReplicated));
  std::filesystem::create_directory_symlink(directory / "from", directory / "link");
  for (const char* out : {"from/out", "from/../from/out/", "link/out", "from/in"}) {
    EXPECT_EQ(caught([&] { consolidate_checkpoint(directory / "from/in", directory / out); }),
              failure(ErrorCode::kUsage));
    EXPECT_EQ(caught([&] { reshard_checkpoint(directory / "link/in", directory / out, 2); }),
              failure(ErrorCode::kUsage));
  }
  EXPECT_EQ(list_checkpoints(directory / "from").size(), 1U);
}

TEST(Consolidate, RefusesToPutItsResultIntoAnotherRun) {
  const test::TestDirectory directory;
  save(directory / "from/in", replicas(), by(Strategy::kReplicated));
  save(directory / "run/other", replicas(), by(Strategy::kReplicated));
  EXPECT_EQ(caught([&] { consolidate_checkpoint(directory / "from/in", directory / "run/out"); }),
            failure(ErrorCode::kUsage));
  EXPECT_EQ(caught([&] { reshard_checkpoint(directory / "from/in", directory / "run/out", 2); }),
            failure(ErrorCode::kUsage));
  EXPECT_EQ(list_checkpoints(directory / "run").size(), 1U);
  // Those of other results are of no run.
  consolidate_checkpoint(directory / "from/in", directory / "one");
  consolidate_checkpoint(directory / "from/in", directory / "two");
}

TEST(Consolidate, NamesTheSourceThatCannotBeRead) {
  const test::TestDirectory directory;
  save(directory / "from/in", replicas(), by(Strategy::kReplicated));
  // The last pieces that are read of it are those that are written.
  unsigned reads = 0, reads_max = UINT_MAX;
  const test::SystemCalls calls([&](const test::Call& call) -> test::Reply {
    const bool counts = call.kind == test::Call::Kind::kRead && call.path.ends_with("from/in/rank_0/model.safetensors");
    if (counts && ++reads >= reads_max) return test::Reply::failure(EIO);
    return true;
  });
  CheckpointReadOptions options;
  options.threads = 1;
  CheckpointOptions to;
  to.threads = 1;
  consolidate_checkpoint(directory / "from/in", directory / "out", options, to);
  reads_max = std::exchange(reads, 0);
  EXPECT_THAT(test::message_of([&] { consolidate_checkpoint(directory / "from/in", directory / "out", options, to); }),
              HasSubstr("from/in/rank_0/model.safetensors: pread: Input/output error"));
}

TEST(Consolidate, NoticesAnOptimizerThatGotLostWhereNothingListsTheFiles) {
  const test::TestDirectory directory;
  save(directory / "from/in", partitions(), by(Strategy::kZeroPartitioned));
  std::filesystem::remove(directory / "from/in/commit.json");
  CheckpointReadOptions options;
  options.commit = CheckpointReadOptions::Commit::kNotRequired;
  consolidate_checkpoint(directory / "from/in", directory / "out", options);
  std::filesystem::remove(directory / "from/in/rank_1/optimizer.safetensors");
  EXPECT_THAT(test::message_of([&] { consolidate_checkpoint(directory / "from/in", directory / "again", options); }),
              HasSubstr("rank 1 has no optimizer"));
}

// As other programs write them: the short form of sharding_meta.json, and no commit.json.
TEST(Consolidate, ReadsShardsWithoutCommitIfItIsAskedTo) {
  const test::TestDirectory directory;
  const TensorParallelCase parallel(1, {2, 6});
  save(directory / "from/in", parallel.shards, by(Strategy::kTensorParallel, {{"w", 1}}));
  std::filesystem::remove(directory / "from/in/commit.json");
  for (const char* rank : {"rank_0", "rank_1"})
    std::filesystem::remove(directory / (std::string("from/in/") + rank + "/manifest.json"));
  const std::string meta = R"({"version": 2, "world_size": 2, "strategy": "TensorParallel", "split_dims": {"w": 1}})";
  test::write_whole(directory / "from/in/sharding_meta.json", std::as_bytes(std::span(meta)));
  EXPECT_EQ(caught([&] { consolidate_checkpoint(directory / "from/in", directory / "out"); }),
            failure(ErrorCode::kCheckpointUncommitted));
  CheckpointReadOptions options;
  options.commit = CheckpointReadOptions::Commit::kNotRequired;
  consolidate_checkpoint(directory / "from/in", directory / "out", options);
  EXPECT_EQ(content_of(load_checkpoint(directory / "out").model).at("w"), parallel.w);
  EXPECT_EQ(load_distributed_checkpoint(directory / "from/in", 1, 2, options).state, state_at(9));
  EXPECT_EQ(caught([&] { load_distributed_checkpoint(directory / "from/in", 1, 3, options); }),
            failure(ErrorCode::kCheckpointWorld));
  std::filesystem::remove_all(directory / "from/in/rank_1");
  EXPECT_EQ(caught([&] { load_distributed_checkpoint(directory / "from/in", 1, 2, options); }),
            failure(ErrorCode::kCheckpointDamaged));
}

}  // namespace
}  // namespace tzmark
