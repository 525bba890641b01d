// Commands and results of fio, and short runs of it if installed.
#include "harness/fio.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "harness/page_cache.h"
#include "testing/files/test_directory.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr std::uint64_t kBytes = 8 << 20;
constexpr std::uint64_t kBlockBytes = 256 << 10;

FioJob job_of(FioOperation operation, FioEngine engine, const std::string& file_name) {
  FioJob job;
  job.file_name = file_name;
  job.operation = operation;
  job.engine = engine;
  job.bytes = kBytes;
  job.block_bytes = kBlockBytes;
  job.timeout = std::chrono::seconds(60);
  return job;
}

TEST(FioCommand, SharesTheFileOutEvenly) {
  FioJob job = job_of(FioOperation::kRead, FioEngine::kPsync, "/some/a:b");
  job.bytes = 10'000'000;
  job.threads = 3;
  const auto command = fio_command(job);
  // 12 whole blocks fit into a third of the bytes.
  EXPECT_THAT(command, Contains("--size=3145728"));
  EXPECT_THAT(command, Contains("--offset_increment=3145728"));
  EXPECT_THAT(command, Contains("--numjobs=3"));
  EXPECT_THAT(command, Contains("--bs=262144"));
  EXPECT_THAT(command, Contains("--filename=/some/a\\:b"));
  EXPECT_THAT(command, Contains("--direct=0"));
  EXPECT_THAT(command, Contains("--fallocate=none"));
  EXPECT_THAT(command, Contains("--end_fsync=0"));
  EXPECT_THAT(command, Contains("--invalidate=0"));
}

TEST(FioCommand, KeepsTheDepthOverAllThreads) {
  FioJob job = job_of(FioOperation::kWrite, FioEngine::kPsync, "f");
  job.threads = 2;
  job.queue_depth = 8;
  job.direct = true;
  job.reserve = true;
  auto command = fio_command(job);
  EXPECT_THAT(command, Contains("--numjobs=8"));
  EXPECT_THAT(command, Contains("--direct=1"));
  EXPECT_THAT(command, Contains("--fallocate=native"));
  EXPECT_THAT(command, Not(Contains(HasSubstr("iodepth"))));
  job.engine = FioEngine::kIoUring;
  command = fio_command(job);
  EXPECT_THAT(command, Contains("--numjobs=2"));
  EXPECT_THAT(command, Contains("--iodepth=4"));
}

TEST(FioCommand, LessThanABlockForEachJobIsAnError) {
  FioJob job = job_of(FioOperation::kRead, FioEngine::kPsync, "f");
  job.threads = 33;
  EXPECT_THROW(fio_command(job), Error);
  job.threads = 32;
  EXPECT_NO_THROW(fio_command(job));
  job.block_bytes = 0;
  EXPECT_THROW(fio_command(job), Error);
}

constexpr std::string_view kOutput = R"(note: something to know
{"fio version": "fio-3.33", "jobs": [{"error": 0, "job_runtime": 400, "usr_cpu": 10.0, "sys_cpu": 15.0,
  "read": {"io_bytes": 1000000, "runtime": 250, "clat_ns": {"N": 4, "max": 99,
    "percentile": {"50.000000": 5, "90.000000": 6, "99.000000": 7, "99.900000": 8}}},
  "write": {"io_bytes": 0, "runtime": 0, "clat_ns": {"N": 0, "max": 0}}}]}
)";

TEST(FioResult, IsReadFromItsJson) {
  const FioResult result = parse_fio(kOutput, FioOperation::kRead);
  EXPECT_EQ(result.elapsed_ns, 250'000'000u);
  EXPECT_EQ(result.bytes, 1'000'000u);
  EXPECT_EQ(result.rate, 4e6);
  EXPECT_EQ(result.cpu_ns, 100'000'000u);
  EXPECT_EQ(result.latency.count, 4u);
  EXPECT_EQ(result.latency.p50, 5u);
  EXPECT_EQ(result.latency.p99_9, 8u);
  EXPECT_EQ(result.latency.max, 99u);
  EXPECT_EQ(result.version, "fio-3.33");
}

TEST(FioResult, NothingMovedOrNoResultIsAnError) {
  EXPECT_THROW(parse_fio(kOutput, FioOperation::kWrite), Error);
  EXPECT_THROW(parse_fio("fio: no such engine", FioOperation::kRead), Error);
  EXPECT_THROW(parse_fio("{}", FioOperation::kRead), Error);
  std::string failed(kOutput);
  failed.replace(failed.find("\"error\": 0"), 10, "\"error\": 5");
  EXPECT_THROW(parse_fio(failed, FioOperation::kRead), Error);
}

TEST(Fio, AbsentIsReportedAsAbsent) {
  const test::TestDirectory empty;
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", empty.name().c_str(), 1);
  const auto version = fio_version();
  ErrorCode code{};
  try {
    run_fio(job_of(FioOperation::kWrite, FioEngine::kPsync, empty / "file"));
  } catch (const Error& error) {
    code = error.code();
  }
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_FALSE(version);
  EXPECT_EQ(code, ErrorCode::kUnavailable);
}

class FioRuns : public testing::TestWithParam<FioEngine> {
 protected:
  void SetUp() override {
    if (!fio_version()) GTEST_SKIP() << "no fio on this machine";
  }
  FioJob job(FioOperation operation) const {
    FioJob made = job_of(operation, GetParam(), directory_ / "file");
    made.threads = 2;
    made.queue_depth = 4;
    return made;
  }
  // An engine that this machine forbids (io_uring) is skipped with fio's message.
  static std::optional<FioResult> run(const FioJob& job) {
    try {
      return run_fio(job);
    } catch (const Error& error) {
      if (job.engine == FioEngine::kIoUring && error.message().find("not permitted") != std::string::npos) return {};
      throw;
    }
  }

  test::TestDirectory directory_;
};

TEST_P(FioRuns, WritesAllAndReadsAll) {
  FioJob writing = job(FioOperation::kWrite);
  writing.reserve = true;
  const auto written = run(writing);
  if (!written) GTEST_SKIP() << "io_uring is forbidden here";
  EXPECT_EQ(written->bytes, kBytes);
  EXPECT_EQ(std::filesystem::file_size(writing.file_name), kBytes);
  const auto content = test::read_whole(writing.file_name);
  const auto zeros = std::ranges::count(content, std::byte{0});
  EXPECT_LT(zeros, static_cast<std::ptrdiff_t>(kBytes / 8)) << "part of the file was never written";
  EXPECT_EQ(written->latency.count, kBytes / kBlockBytes);
  EXPECT_GT(written->rate, 0);
  EXPECT_THAT(written->version, testing::StartsWith("fio-"));
  EXPECT_EQ(std::as_const(directory_).entries(), std::vector<std::string>{"file"});

  const auto read = run(job(FioOperation::kRead));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->bytes, kBytes);
  EXPECT_EQ(read->latency.count, kBytes / kBlockBytes);
  EXPECT_GE(read->latency.max, read->latency.p50);
}

TEST_P(FioRuns, NeverMakesWhatItShouldRead) {
  const FioJob reading = job(FioOperation::kRead);
  EXPECT_THROW(run_fio(reading), Error);
  test::write_whole(reading.file_name, test::random_bytes(1000, 1));
  EXPECT_THROW(run_fio(reading), Error);
  EXPECT_EQ(std::filesystem::file_size(reading.file_name), 1000u);
}

TEST_P(FioRuns, LeavesTheCacheAsItIs) {
  test::write_whole(directory_ / "file", test::random_bytes(kBytes, 1));
  ASSERT_EQ(warm(directory_ / "file"), 1);
  if (!run(job(FioOperation::kRead))) GTEST_SKIP() << "io_uring is forbidden here";
  EXPECT_EQ(resident_share(directory_ / "file"), 1);
}

TEST_P(FioRuns, FailureHasFiosWords) {
  FioJob writing = job(FioOperation::kWrite);
  writing.file_name = "/proc/no-file-can-be-here";
  try {
    run_fio(writing);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kWriteFailed);
    EXPECT_THAT(error.message(), HasSubstr("No such file"));
  }
}

std::string name_of_engine(const testing::TestParamInfo<FioEngine>& test) {
  return test.param == FioEngine::kPsync ? "psync" : "io_uring";
}
INSTANTIATE_TEST_SUITE_P(Engines, FioRuns, testing::Values(FioEngine::kPsync, FioEngine::kIoUring), name_of_engine);

}  // namespace
}  // namespace tzmark::bench
