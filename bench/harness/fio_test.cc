// Commands and results of fio, and short runs of it if installed.
#include "harness/fio.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <span>

#include "harness/page_cache.h"
#include "harness/small_file.h"
#include "testing/files/test_directory.h"
#include "tzmark/error.h"
#include "tzmark/memory.h"

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

TEST(FioCommand, JobsTakeBlocksInTurn) {
  FioJob job = job_of(FioOperation::kRead, FioEngine::kPsync, "/some/a:b");
  job.bytes = 10'000'000;
  job.threads = 3;
  const auto command = fio_command(job);
  // 12 whole blocks fit into a third of the bytes.
  EXPECT_THAT(command, Contains("--io_size=3145728"));
  EXPECT_THAT(command, Contains("--offset_increment=262144"));
  EXPECT_THAT(command, Contains("--rw=read:524288"));
  // The last block of the first job ends two blocks before that of the last one.
  EXPECT_THAT(command, Contains("--size=8912896"));
  EXPECT_EQ(fio_bytes(job), 3u * 3'145'728);
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

TEST(FioCommand, AsksForTheKindOfPages) {
  FioJob job = job_of(FioOperation::kRead, FioEngine::kPsync, "f");
  EXPECT_THAT(fio_command(job), Contains("GLIBC_TUNABLES=glibc.malloc.hugetlb=0"));
  EXPECT_THAT(fio_command(job), Contains("--rw=read"));
  job.pages = Pages::kHuge;
  EXPECT_THAT(fio_command(job), Contains("GLIBC_TUNABLES=glibc.malloc.hugetlb=1"));
  EXPECT_THAT(fio_command(job), Contains("--mem_align=2097152"));
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
{"fio version": "fio-3.33", "jobs": [
  {"error": 0, "job_runtime": 400, "usr_cpu": 10.0, "sys_cpu": 15.0,
   "read": {"io_bytes": 600000, "runtime": 250, "slat_ns": {"N": 0, "max": 0},
     "clat_ns": {"N": 3, "max": 99, "bins": {"40": 2, "95": 1}}, "lat_ns": {"N": 3, "mean": 83200000.0}},
   "write": {"io_bytes": 0, "runtime": 0, "slat_ns": {"N": 0, "max": 0}, "clat_ns": {"N": 0, "max": 0},
     "lat_ns": {"N": 0, "mean": 0.0}}},
  {"error": 0, "job_runtime": 400, "usr_cpu": 0.0, "sys_cpu": 25.0,
   "read": {"io_bytes": 400000, "runtime": 240, "slat_ns": {"N": 2, "max": 9, "bins": {"9": 2}},
     "clat_ns": {"N": 2, "max": 60, "bins": {"59": 2}}, "lat_ns": {"N": 2, "mean": 120000000.0}},
   "write": {"io_bytes": 0, "runtime": 0, "slat_ns": {"N": 0, "max": 0}, "clat_ns": {"N": 0, "max": 0},
     "lat_ns": {"N": 0, "mean": 0.0}}}]}
)";

TEST(FioResult, IsReadFromItsJson) {
  const FioResult result = parse_fio(kOutput, job_of(FioOperation::kRead, FioEngine::kPsync, "f"));
  // The first job: three times 83.2 ms, within the millisecond that ends at 250 ms.
  EXPECT_EQ(result.elapsed_ns, 249'600'000u);
  EXPECT_EQ(result.bytes, 1'000'000u);
  EXPECT_DOUBLE_EQ(result.rate, 1e6 / 0.2496);
  EXPECT_EQ(result.cpu_ns, 200'000'000u);
  EXPECT_EQ(result.latency.count(), 5u);
  EXPECT_EQ(result.latency.percentile_ns(0.4), 40u);
  EXPECT_EQ(result.latency.percentile_ns(0.5), 59u);
  EXPECT_EQ(result.latency.max_ns(), 99u);
  EXPECT_EQ(result.submission.count(), 2u);
  EXPECT_EQ(result.version, "fio-3.33");
}

TEST(FioResult, TakesTheTimeWithinTheMillisecondThatFioReports) {
  const auto with_mean = [](const std::string& mean_ns) {
    std::string output(kOutput);
    output.replace(output.find("83200000.0"), 10, mean_ns);
    return parse_fio(output, job_of(FioOperation::kRead, FioEngine::kPsync, "f")).elapsed_ns;
  };
  EXPECT_EQ(with_mean("10000000.0"), 249'000'000u);
  EXPECT_EQ(with_mean("90000000.0"), 250'000'000u);
  // Of transfers that overlap, the sum of the latencies is that of the depth.
  FioJob deep = job_of(FioOperation::kRead, FioEngine::kIoUring, "f");
  deep.queue_depth = 2;
  std::string output(kOutput);
  output.replace(output.find("83200000.0"), 10, "166600000.0");
  EXPECT_EQ(parse_fio(output, deep).elapsed_ns, 249'900'000u);
}

TEST(FioResult, TakesTheTimeOfAllJobsThatStartApart) {
  // Two jobs: from 1000 to 1031, and from 1010 to 1042; less the millisecond of rounding.
  constexpr std::string_view kLog =
      "1012, 12000000, 1, 2097152, 0, 0\n1031, 19000000, 1, 2097152, 0, 0\n"
      "1040, 30000000, 1, 2097152, 0, 0\n1042, 2000000, 1, 2097152, 0, 0\n";
  EXPECT_EQ(fio_span_ns(kLog), 41'000'000u);
  EXPECT_EQ(fio_span_ns("1012, 500, 1"), 0u) << "the rounding is longer";
  EXPECT_EQ(fio_span_ns(""), std::nullopt);
  EXPECT_EQ(fio_span_ns("1012, 12000000, 1\nno log"), std::nullopt);
}

TEST(FioResult, NothingMovedOrNoResultIsAnError) {
  const FioJob reading = job_of(FioOperation::kRead, FioEngine::kPsync, "f");
  EXPECT_THROW(parse_fio(kOutput, job_of(FioOperation::kWrite, FioEngine::kPsync, "f")), Error);
  EXPECT_THROW(parse_fio("fio: no such engine", reading), Error);
  EXPECT_THROW(parse_fio("{}", reading), Error);
  std::string failed(kOutput);
  failed.replace(failed.find("\"error\": 0"), 10, "\"error\": 5");
  EXPECT_THROW(parse_fio(failed, reading), Error);
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
  // Up to an eighth of all that fio writes may be zeros, for it shifts its random numbers, but no page is all zeros.
  const auto content = test::read_whole(writing.file_name);
  for (std::size_t at = 0; at < kBytes; at += 4096) {
    const auto page = std::span(content).subspan(at, 4096);
    ASSERT_FALSE(std::ranges::all_of(page, [](std::byte b) { return b == std::byte{0}; }))
        << at << " was never written";
  }
  EXPECT_EQ(written->latency.count(), kBytes / kBlockBytes);
  EXPECT_GT(written->rate, 0);
  EXPECT_THAT(written->version, testing::StartsWith("fio-"));
  EXPECT_EQ(std::as_const(directory_).entries(), std::vector<std::string>{"file"});

  const auto read = run(job(FioOperation::kRead));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->bytes, kBytes);
  EXPECT_EQ(read->latency.count(), kBytes / kBlockBytes);
  EXPECT_GE(read->latency.max_ns(), read->latency.percentile_ns(0.5));
  EXPECT_EQ(read->submission.count(), GetParam() == FioEngine::kPsync ? 0 : kBytes / kBlockBytes);
  EXPECT_LE(read->elapsed_ns, 60'000'000'000u);
}

TEST_P(FioRuns, WritesAnotherFileEachTime) {
  const FioJob writing = job(FioOperation::kWrite);
  if (!run(writing)) GTEST_SKIP() << "io_uring is forbidden here";
  const auto first = test::read_whole(writing.file_name);
  ASSERT_TRUE(run(writing));
  const auto second = test::read_whole(writing.file_name);
  for (std::size_t at = 0; at < kBytes; at += 4096) {
    ASSERT_FALSE(std::equal(first.begin() + static_cast<std::ptrdiff_t>(at),
                            first.begin() + static_cast<std::ptrdiff_t>(at) + 4096,
                            second.begin() + static_cast<std::ptrdiff_t>(at)))
        << at;
  }
}

TEST_P(FioRuns, HasTheKindOfPagesThatWasRequested) {
  FioJob reading = job(FioOperation::kRead);
  reading.bytes = 256 << 20;
  reading.block_bytes = 2 << 20;
  reading.direct = true;
  test::write_whole(reading.file_name, std::vector<std::byte>(reading.bytes));
  for (const Pages pages : {Pages::kSmall, Pages::kHuge}) {
    reading.pages = pages;
    if (!run(reading)) GTEST_SKIP() << "io_uring is forbidden here";
    const std::string setting = read_value("/sys/kernel/mm/transparent_hugepage/enabled").value_or("[never]");
    // The kernel may fail to make a huge page while its memory is in use, and give small ones.
    std::string_view seen;
    for (int attempt = 0; attempt < 5 && seen != name_of(pages); ++attempt) {
      const auto share = fio_huge_share(reading);
      ASSERT_TRUE(share) << name_of(pages);
      seen = kind_of(*share);
    }
    if (chosen(setting) != "madvise" || seen == name_of(pages)) continue;
    const HostMemory own(16 << 20, HostMemory::Pages::kHuge);
    std::ranges::fill(own.bytes(), std::byte{1});
    if (kind_of(huge_share(own.bytes()).value_or(0)) != "huge") GTEST_SKIP() << "the kernel has no huge pages";
    ADD_FAILURE() << "fio had " << seen << " pages, not " << name_of(pages);
  }
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
