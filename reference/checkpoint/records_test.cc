// Tests of the JSON files of a checkpoint.
#include "checkpoint/records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/caught.h"
#include "testing/files/checkpoint_models.h"

namespace tzmark::checkpoint {
namespace {

using test::caught;
using test::failure;

TEST(TrainingStateJson, ComesBackAsItWas) {
  TrainingState state = test::state_at((std::uint64_t{1} << 63) + 1);
  state.learning_rate = 0.1;
  EXPECT_EQ(parse_state(serialize_state(state)), state);
}

TEST(TrainingStateJson, NeedsAStepAndNothingElse) {
  const TrainingState state = parse_state(R"({"step": 3, "unknown": {"a": 1}})");
  EXPECT_EQ(state.step, 3U);
  EXPECT_EQ(state.version, 2U);
  EXPECT_EQ(state.epoch, 0U);
  EXPECT_EQ(state.learning_rate, 0);
  for (const char* text : {R"({"epoch": 3})", R"({"step": -1})", R"({"step": 1.5})", R"({"step": "1"})", "[]", "",
                           R"({"step": 1, "metadata": {"a": 1}})", R"({"step": 1, "learning_rate": "a"})",
                           R"({"step": 18446744073709551616})", R"({"step": 1, "version": 4294967296})"}) {
    EXPECT_EQ(caught([&] { parse_state(text); }), failure(ErrorCode::kCheckpointState)) << text;
  }
}

TEST(TrainingStateJson, IsRefusedWhenItIsNestedTooDeep) {
  const std::string deep = R"({"step": 1, "a": )" + std::string(200'000, '[') + std::string(200'000, ']') + "}";
  EXPECT_EQ(caught([&] { parse_state(deep); }), failure(ErrorCode::kCheckpointState));
}

ShardingMeta two_shards() {
  ShardingMeta meta{std::vector<Sharding>(2), 0};
  for (Sharding& shard : meta.shards) {
    shard.strategy = Sharding::Strategy::kTensorParallel;
    shard.split_dims = {{"w", 1}};
  }
  meta.shards[0].owned_params = {"w", "b"};
  return meta;
}

TEST(ShardingJson, ComesBackAsItWas) {
  ShardingMeta meta = two_shards();
  EXPECT_EQ(parse_sharding(serialize_sharding(meta)).shards, meta.shards);
  meta.shards[1].strategy = Sharding::Strategy::kZeroPartitioned;
  meta.shards[1].zero_stage = 1;
  meta.shards[0].strategy = Sharding::Strategy::kReplicated;
  EXPECT_EQ(parse_sharding(serialize_sharding(meta)).shards, meta.shards);
}

TEST(ShardingJson, ReadsBothForms) {
  const ShardingMeta shards = parse_sharding(
      R"({"version": 1, "world_size": 2, "shards": [
          {"world_size": 2, "rank": 1, "owned_params": ["b"], "strategy": {"ZeroPartitioned": {"stage": 3}}},
          {"world_size": 2, "rank": 0, "owned_params": ["a"], "strategy": {"ZeroPartitioned": {"stage": 3}},
           "split_dims": {}}]})");
  ASSERT_EQ(shards.world_size(), 2U);
  EXPECT_EQ(shards.shards[0].owned_params, std::vector<std::string>{"a"});
  EXPECT_EQ(shards.shards[1].strategy, Sharding::Strategy::kZeroPartitioned);
  const ShardingMeta one =
      parse_sharding(R"({"version": 2, "world_size": 3, "strategy": "TensorParallel", "split_dims": {"w": 0}})");
  ASSERT_EQ(one.world_size(), 3U);
  EXPECT_EQ(one.of(2).split_dims.at("w"), 0U);
  EXPECT_EQ(one.shards.size(), 1U) << "memory in proportion to what a small file claims";
}

TEST(ShardingJson, RefusesWhatDoesNotFitTogether) {
  const std::string shard = R"({"world_size": 2, "rank": 0, "owned_params": [], "strategy": "Replicated"})";
  for (const std::string& text :
       {std::string("{}"), std::string(R"({"world_size": 0, "strategy": "Replicated"})"),
        std::string(R"({"world_size": 4000000000, "strategy": "Replicated"})"),
        std::string(R"({"world_size": 2, "strategy": "Other"})"), R"({"world_size": 2, "shards": [)" + shard + "]}",
        R"({"world_size": 2, "shards": [)" + shard + "," + shard + "]}",
        std::string(R"({"world_size": 2, "strategy": "Replicated"})") + '\0' + "what follows",
        std::string(R"({"world_size": 1, "strategy": "TensorParallel", "split_dims": [1]})"),
        std::string(R"({"world_size": 1, "strategy": "TensorParallel", "split_dims": {"w": -1}})")}) {
    EXPECT_EQ(caught([&] { parse_sharding(text); }), failure(ErrorCode::kCheckpointShards)) << text;
  }
}

TEST(Records, SayWhatIsWrongInTheWordsOfTheirFiles) {
  const auto message_of = [](const auto& parse) {
    try {
      parse();
    } catch (const Error& error) {
      return error.message();
    }
    return std::string("accepted");
  };
  EXPECT_EQ(message_of([] { parse_state(R"({"step": 1, "metadata": {"a": 5}})"); }),
            "metadata: type must be string, but is number");
  EXPECT_EQ(
      message_of([] { parse_sharding(R"({"world_size": 1, "strategy": "TensorParallel", "owned_params": [1]})"); }),
      "owned_params: type must be string, but is number");
  EXPECT_THAT(message_of([] { parse_state("{"); }), testing::StartsWith("parse error at line 1"));
  TrainingState state;
  state.metadata["a"] = "\xff";
  EXPECT_EQ(message_of([&] { serialize_state(state); }), "invalid UTF-8 byte at index 0: 0xFF");
}

CommitRecord some_commit() {
  return {"id-1",
          5,
          2,
          123456789,
          {{"rank_0/model.safetensors", {17, 0x995dc9bbdf1939fa}}, {"sharding_meta.json", {2, 3}}},
          {"step-5", 7, "id-0", "run-b", {{"run-a", 3}}, "host", 42},
          CommitMethod::kMarker};
}

TEST(CommitJson, ComesBackAsItWas) {
  const CommitRecord record = some_commit(), read = parse_commit(serialize_commit(record));
  EXPECT_EQ(read.save_id, record.save_id);
  EXPECT_EQ(read.step, record.step);
  EXPECT_EQ(read.world_size, record.world_size);
  EXPECT_EQ(read.committed_unix_ns, record.committed_unix_ns);
  EXPECT_EQ(read.files, record.files);
  EXPECT_EQ(read.origin, record.origin);
  EXPECT_EQ(read.method, record.method);
  EXPECT_THAT(serialize_commit(record), testing::HasSubstr("995dc9bbdf1939fa"));
}

TEST(CommitJson, RecordsNamesOfAnyBytes) {
  CommitRecord record = some_commit();
  record.origin.name = "a\xff\x01";
  const std::string text = serialize_commit(record);
  EXPECT_THAT(text, testing::HasSubstr(R"("name_hex": "61ff01")"));
  EXPECT_EQ(parse_commit(text).origin, record.origin);
}

// As older releases wrote it.
TEST(CommitJson, NeedsNoPlaceAmongTheOthers) {
  CommitRecord record = some_commit();
  record.origin = {};
  const std::string text = serialize_commit(record);
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("sequence")));
  EXPECT_EQ(parse_commit(text).origin, CheckpointOrigin());
  EXPECT_EQ(parse_commit(text).files, record.files);
}

TEST(CommitJson, RefusesAWrongPlaceAmongTheOthers) {
  const auto refused = [](auto&& change) {
    CommitRecord record = some_commit();
    change(record.origin);
    return caught([&] { parse_commit(serialize_commit(record)); }) == failure(ErrorCode::kCheckpointUncommitted);
  };
  EXPECT_FALSE(refused([](CheckpointOrigin&) {}));
  EXPECT_FALSE(refused([](CheckpointOrigin& origin) { origin.sequence = kSequenceMax; }));
  EXPECT_TRUE(refused([](CheckpointOrigin& origin) { origin.sequence = kSequenceMax + 1; }));
  EXPECT_TRUE(refused([](CheckpointOrigin& origin) { origin.line[0].last_sequence = 0; }));
}

// With a parser that is quadratic in the length of a list, these take minutes each.
TEST(CommitJson, IsReadInTimeThatGrowsWithItsSize) {
  CommitRecord record = some_commit();
  record.files.clear();
  for (int i = 0; i < 250'000; ++i) record.files.push_back({"file-" + std::to_string(i), {1, 2}});
  EXPECT_EQ(parse_commit(serialize_commit(record)).files, record.files);
  std::string members = "{";
  for (int i = 0; i < 250'000; ++i) members += "\"" + std::to_string(i) + "\": {}, ";
  EXPECT_EQ(caught([&] { parse_commit(members + "\"a\": []}"); }), failure(ErrorCode::kCheckpointUncommitted));
  EXPECT_EQ(parse_state(members + "\"step\": 3}").step, 3U);
}

TEST(CommitJson, IsRefusedWithMoreValuesThanMemoryShouldHold) {
  std::string text = "{\"version\": 1, \"files\": [0";
  for (int i = 0; i < 1 << 22; ++i) text += ",0";
  text += "]}";
  EXPECT_EQ(caught([&] { parse_commit(text); }), failure(ErrorCode::kCheckpointUncommitted));
  EXPECT_EQ(caught([&] { check_record(text); }), failure(ErrorCode::kResource));
  check_record("[\"[[[[[[[[[[[[[[[[[[[[[\\\"[[[[[[[[[[[[[[[[[[[\"]");
}

TEST(CommitJson, NoticesEveryBitThatIsTurnedAndEveryByteThatIsMissing) {
  const std::string text = serialize_commit(some_commit());
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      EXPECT_EQ(caught([&] { parse_commit(damaged); }), failure(ErrorCode::kCheckpointUncommitted)) << damaged;
    }
    // Without its last line break it says the same.
    if (at + 1 == text.size()) break;
    EXPECT_EQ(caught([&] { parse_commit(text.substr(0, at)); }), failure(ErrorCode::kCheckpointUncommitted));
  }
}

TEST(CommitJson, RefusesNamesThatLeadElsewhere) {
  for (const char* name : {"../a", "/etc/passwd", "rank_0/../../a", "a/b", "rank_0/", "..", ".", "", "rank_0/a/b"}) {
    CommitRecord record = some_commit();
    record.files[0].name = name;
    EXPECT_EQ(caught([&] { parse_commit(serialize_commit(record)); }), failure(ErrorCode::kCheckpointUncommitted))
        << name;
  }
  CommitRecord twice = some_commit();
  twice.files[1].name = twice.files[0].name;
  EXPECT_EQ(caught([&] { parse_commit(serialize_commit(twice)); }), failure(ErrorCode::kCheckpointUncommitted));
}

TEST(ManifestJson, ComesBackAsItWas) {
  RankManifest manifest{"id", 4, 1, 2, two_shards().shards[0], some_commit().files};
  const RankManifest read = parse_manifest(serialize_manifest(manifest));
  EXPECT_EQ(read.save_id, "id");
  EXPECT_EQ(read.step, 4U);
  EXPECT_EQ(read.rank, 1U);
  EXPECT_EQ(read.world_size, 2U);
  EXPECT_EQ(read.sharding, manifest.sharding);
  EXPECT_EQ(read.files, manifest.files);
  EXPECT_EQ(caught([&] { parse_manifest("{}"); }), failure(ErrorCode::kCheckpointPeer));
}

}  // namespace
}  // namespace tzmark::checkpoint
