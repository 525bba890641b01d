// All patterns over ranks that are threads: every rank gets the right bytes, and what fails on one ends no other.
#include "cluster/cluster_subject.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "testing/files/test_directory.h"
#include "testing/thread_ranks.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

constexpr std::uint64_t kModelBytes = 4 << 20;

// Rank 0 leads, and the others follow.
void run_program(unsigned size, const std::function<void(ClusterLead&, const std::string& directory)>& program) {
  const std::string parent = testing::TempDir();
  run_on_ranks(size, 2, [&](Ranks& ranks) {
    RankWorker own(ranks, {.io = "pwrite", .block_bytes = 65536, .threads = 2}, Cache::kWarm);
    if (ranks.rank() != 0) return follow(ranks, own);
    ClusterLead lead(ranks, own);
    const std::filesystem::path directory = std::filesystem::path(parent) / "cluster";
    std::filesystem::create_directory(directory);
    EXPECT_NO_THROW(program(lead, directory));
    lead.end();
    std::filesystem::remove_all(directory);
  });
}

std::size_t files_below(const std::string& directory) {
  const std::filesystem::recursive_directory_iterator entries(directory);
  return static_cast<std::size_t>(
      std::count_if(begin(entries), end(entries), [](const auto& entry) { return entry.is_regular_file(); }));
}

ClusterFiles files_in(const std::string& directory) {
  const TensorContent content(make_workload("gpt2", kModelBytes));
  const std::string model = directory + "/model.tensors";
  write_file(model, content.table(), content.source(), write_options({}));
  return {.directory = directory,
          .model = model,
          .with_shards = false,
          .with_writes = true,
          .workload = "gpt2",
          .shard_bytes = 0,
          .written_bytes = kModelBytes};
}

TEST(ClusterSubject, EveryPatternGivesEachRankItsBytes) {
  for (const unsigned size : {1U, 2U, 3U, 5U}) {
    run_program(size, [&](ClusterLead& lead, const std::string& directory) {
      const ClusterFiles files = files_in(directory);
      lead.set_up(files);
      const std::uint64_t bytes = std::filesystem::file_size(files.model);
      for (const Pattern pattern : all_patterns()) {
        if (pattern == Pattern::kSharded) continue;
        ClusterSubject subject(lead, pattern, "model", Cache::kWarm);
        EXPECT_NO_THROW(subject.verify()) << name_of(pattern);
        if (is_write(pattern)) {
          EXPECT_EQ(subject.description().bytes, make_workload("gpt2", kModelBytes).data_bytes());
        } else if (pattern != Pattern::kSliced) {
          EXPECT_EQ(subject.description().bytes, size * bytes);
        } else {
          EXPECT_GE(subject.description().bytes, lead.own().tensor_bytes());
          EXPECT_LT(subject.description().bytes, 2 * lead.own().tensor_bytes());
        }
        const std::vector<Sample> samples = {subject.run(), subject.run(), subject.run()};
        for (unsigned rank = 0; rank < size; ++rank) {
          // The roles go round.
          const bool stays = pattern == Pattern::kGather || is_write(pattern);
          EXPECT_EQ(samples[1].ranks[rank]["role"], stays ? rank : (rank + 1) % size);
          EXPECT_LE(samples[0].ranks[rank]["elapsed_ns"], samples[0].elapsed_ns);
          EXPECT_EQ(samples[0].ranks[rank]["resident_share"].is_null(), rank % 2 != 0 || is_write(pattern));
          EXPECT_EQ(samples[0].ranks[rank]["open_ns"].is_null(), is_write(pattern));
          EXPECT_EQ(samples[0].ranks[rank]["stall_ns"].is_null(), pattern != Pattern::kCheckpoint);
        }
        subject.add_figures(samples);
        const nlohmann::json& figures = subject.description().cluster;
        EXPECT_EQ(figures["ranks"], size);
        EXPECT_EQ(figures["hosts"], (size + 1) / 2);
        EXPECT_TRUE(figures["slow"].is_null()) << "told by three laps";
        EXPECT_LE(figures["first_s"]["median"], figures["last_s"]["median"]);
        EXPECT_EQ(figures["open_s"].is_null(), is_write(pattern));
        EXPECT_EQ(figures["stall_s"].is_null(), pattern != Pattern::kCheckpoint);
        // What was written is removed after each run.
        if (is_write(pattern)) {
          EXPECT_EQ(files_below(directory), 1U) << name_of(pattern);
        }
      }
    });
  }
}

TEST(ClusterSubject, AFileThatOneRankLacksIsOneErrorAndTheRanksGoOn) {
  run_program(3, [](ClusterLead& lead, const std::string& directory) {
    ClusterFiles files = files_in(directory);
    lead.set_up(files);
    std::filesystem::rename(files.model, files.model + ".away");
    for (const Pattern pattern : all_patterns()) {
      if (pattern == Pattern::kSharded || is_write(pattern)) continue;
      ClusterSubject subject(lead, pattern, "model", Cache::kWarm);
      try {
        static_cast<void>(subject.run());
        ADD_FAILURE() << name_of(pattern);
      } catch (const Error& error) {
        EXPECT_NE(error.message().find("rank 0 on host0: "), std::string::npos) << error.what();
      }
    }
    std::filesystem::rename(files.model + ".away", files.model);
    ClusterSubject subject(lead, Pattern::kGather, "model", Cache::kWarm);
    EXPECT_NO_THROW(subject.verify());
  });
}

TEST(ClusterSubject, AFileThatGetsShorterIsAnErrorOfEveryPattern) {
  run_program(3, [](ClusterLead& lead, const std::string& directory) {
    const ClusterFiles files = files_in(directory);
    lead.set_up(files);
    std::filesystem::resize_file(files.model, std::filesystem::file_size(files.model) / 2);
    for (const Pattern pattern : all_patterns()) {
      if (pattern == Pattern::kSharded || is_write(pattern)) continue;
      ClusterSubject subject(lead, pattern, "model", Cache::kWarm);
      EXPECT_THROW(static_cast<void>(subject.run()), Error) << name_of(pattern);
    }
  });
}

TEST(ClusterSubject, WhatCannotBeWrittenIsOneErrorOfTheRanksAndTheyGoOn) {
  run_program(3, [](ClusterLead& lead, const std::string& directory) {
    lead.set_up(files_in(directory));
    for (const Pattern pattern : {Pattern::kSegments, Pattern::kCheckpoint}) {
      ClusterSubject subject(lead, pattern, "model", Cache::kNone);
      {
        // Less than the share of a rank.
        const test::FileSizeLimit limit(kModelBytes / 16);
        try {
          static_cast<void>(subject.run());
          ADD_FAILURE() << name_of(pattern);
        } catch (const Error& error) {
          // Not that another rank has failed.
          EXPECT_EQ(error.code(), ErrorCode::kWriteFailed) << error.what();
        }
      }
      EXPECT_EQ(files_below(directory), 1U) << name_of(pattern);
      EXPECT_NO_THROW(subject.verify()) << name_of(pattern);
    }
  });
}

TEST(ClusterSubject, MoreRanksThanTensorsIsAnError) {
  run_program(9, [](ClusterLead& lead, const std::string& directory) {
    ClusterFiles files = files_in(directory);
    files.workload = "one-huge";
    try {
      lead.set_up(files);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage) << error.what();
    }
  });
}

TEST(RankRun, TextsLeadBack) {
  const RankRun run{.host = "höst",
                    .clock = "c",
                    .role = 3,
                    .began_ns = 9,
                    .open_ns = 1,
                    .stall_ns = 5,
                    .elapsed_ns = 2,
                    .cpu_ns = 3,
                    .bytes = 4,
                    .resident_share = 0.5,
                    .device_read_bytes = 6,
                    .device_written_bytes = 7,
                    .error_code = ErrorCode::kReadFailed,
                    .error_text = "text"};
  EXPECT_EQ(to_text(rank_run_from(to_text(run))), to_text(run));
  EXPECT_EQ(to_text(rank_run_from(to_text(RankRun{}))), to_text(RankRun{}));
  EXPECT_THROW(static_cast<void>(rank_run_from("{}")), Error);
}

TEST(RankRun, RanksOfAClockBeginWithTheFirstOfThem) {
  std::vector<RankRun> runs = {{.clock = "a", .began_ns = 100, .open_ns = 1, .elapsed_ns = 50},
                               {.clock = "b", .began_ns = 7, .open_ns = 1, .elapsed_ns = 50},
                               {.clock = "a", .began_ns = 130, .open_ns = 1, .elapsed_ns = 40}};
  begin_together(runs);
  EXPECT_EQ(runs[0].elapsed_ns, 50U);
  EXPECT_EQ(runs[1].elapsed_ns, 50U);
  EXPECT_EQ(runs[2].elapsed_ns, 70U);
  EXPECT_EQ(runs[2].open_ns, 31U);
}

TEST(RankRun, WrongBytesAreToldFirst) {
  std::vector<RankRun> runs(3, RankRun{.host = "h"});
  EXPECT_NO_THROW(throw_problem_of(runs));
  runs[1].error_code = ErrorCode::kReadFailed;
  runs[2].error_code = ErrorCode::kFileChanged;
  try {
    throw_problem_of(runs);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kFileChanged);
    EXPECT_TRUE(error.message().starts_with("rank 2 on h: ")) << error.what();
  }
  runs[0].error_code = ErrorCode::kCheckpointPeer;
  runs[2].error_code = ErrorCode::kCheckpointPeer;
  try {
    throw_problem_of(runs);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_TRUE(error.message().starts_with("rank 1 on h: ")) << error.what();
  }
}

}  // namespace
}  // namespace tzmark::bench
