// Runs fio and reads its JSON; see fio.h.
#include "harness/fio.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "harness/json_problem.h"
#include "harness/process.h"
#include "harness/small_file.h"
#include "tzmark/error.h"
#include "tzmark/memory.h"

namespace tzmark::bench {
namespace {

using nlohmann::json;

struct Shares {
  unsigned jobs;
  unsigned depth;  // of each
  std::uint64_t bytes;
};

Shares share_out(const FioJob& job) {
  const unsigned threads = std::max(1U, job.threads);
  const unsigned in_flight = std::max(threads, job.queue_depth);
  const bool one_each = job.engine == FioEngine::kPsync;
  const unsigned jobs = one_each ? in_flight : threads;
  if (job.block_bytes == 0 || job.bytes / jobs < job.block_bytes) {
    throw Error(ErrorCode::kUsage, fmt::format("{} bytes are less than one block of {} bytes per job for {} jobs",
                                               job.bytes, job.block_bytes, jobs));
  }
  return {jobs, one_each ? 1 : (in_flight + jobs - 1) / jobs, job.bytes / jobs / job.block_bytes * job.block_bytes};
}

ErrorCode failure_of(FioOperation operation) {
  return operation == FioOperation::kRead ? ErrorCode::kReadFailed : ErrorCode::kWriteFailed;
}

// fio would create or extend a file that is missing or too short, and read what it has just written.
void require_file(const FioJob& job) {
  std::error_code failed;
  const auto size = std::filesystem::file_size(job.file_name, failed);
  if (failed) throw Error(ErrorCode::kOpenFailed, fmt::format("{}: {}", job.file_name, failed.message()));
  if (size < job.bytes) {
    throw Error(ErrorCode::kUsage, fmt::format("{} has {} bytes, not {}", job.file_name, size, job.bytes));
  }
}

// fio separates file names by colons, unless escaped by a backslash.
std::string escaped(const std::string& file_name) {
  std::string result;
  for (const char c : file_name) {
    if (c == ':' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

// Adds {"N": 3, "max": 120, "bins": {"104": 2, "120": 1}}.
void add_latencies(const json& latencies, LatencyHistogram& histogram) {
  if (latencies.at("N") == 0 || !latencies.contains("bins")) return;
  for (const auto& [ns, count] : latencies.at("bins").items()) {
    histogram.record(std::chrono::nanoseconds(std::stoll(ns)), count.get<std::uint64_t>());
  }
  histogram.raise_max(latencies.at("max").get<std::uint64_t>());
}

// fio appends the kind of latency to the name.
std::string log_name(const FioJob& job) { return job.file_name + ".fio"; }

struct LogsRemoved {
  const FioJob& job;

  explicit LogsRemoved(const FioJob& of) : job(of) {}
  LogsRemoved(const LogsRemoved&) = delete;
  LogsRemoved& operator=(const LogsRemoved&) = delete;
  ~LogsRemoved() {
    for (const char* kind : {"lat", "clat", "slat"}) {
      std::error_code absent;
      std::filesystem::remove(fmt::format("{}_{}.log", log_name(job), kind), absent);
    }
  }
};

// The time of one job, see fio.h.
std::uint64_t elapsed_of(const json& part, unsigned depth) {
  const double reported_ns = part.at("runtime").get<double>() * 1e6;
  const json& latencies = part.at("lat_ns");
  const double busy_ns = latencies.at("mean").get<double>() * latencies.at("N").get<double>() / depth;
  return static_cast<std::uint64_t>(std::clamp(busy_ns, std::max(0.0, reported_ns - 1e6), reported_ns));
}

void prepare_file(const FioJob& job) {
  if (job.operation == FioOperation::kRead) return require_file(job);
  std::error_code absent;
  std::filesystem::remove(job.file_name, absent);
}

}  // namespace

std::optional<std::string> fio_version() {
  try {
    CommandResult result = run_command({"fio", "--version"}, std::chrono::seconds(10));
    if (!result.end.empty()) return {};
    return result.output.substr(0, result.output.find('\n'));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnavailable) throw;
    return {};
  }
}

std::vector<std::string> fio_command(const FioJob& job) {
  const Shares shares = share_out(job);
  const bool reads = job.operation == FioOperation::kRead;
  std::string pattern = reads ? "read" : "write";
  if (shares.jobs > 1) pattern += fmt::format(":{}", (shares.jobs - 1) * job.block_bytes);
  std::vector<std::string> command = {
      "env",
      malloc_setting(job.pages),
      "fio",
      "--name=tzmark",
      fmt::format("--filename={}", escaped(job.file_name)),
      fmt::format("--rw={}", pattern),
      fmt::format("--bs={}", job.block_bytes),
      fmt::format("--io_size={}", shares.bytes),
      // From the first block of a job to the end of its last one.
      fmt::format("--size={}", shares.bytes * shares.jobs - (shares.jobs - 1) * job.block_bytes),
      fmt::format("--offset_increment={}", job.block_bytes),
      fmt::format("--numjobs={}", shares.jobs),
      fmt::format("--mem_align={}", kHugePageBytes),
      fmt::format("--direct={}", job.direct ? 1 : 0),
      fmt::format("--fallocate={}", job.reserve ? "native" : "none"),
      "--thread",
      "--invalidate=0",
      "--end_fsync=0",
      "--randrepeat=0",
      "--scramble_buffers=1",
      "--slat_percentiles=1",
      "--output-format=json+",
      // One log of all jobs, with times of the epoch.
      "--write_lat_log=" + log_name(job),
      "--per_job_logs=0",
      "--log_unix_epoch=1",
  };
  if (reads) command.emplace_back("--allow_file_create=0");
  if (job.engine == FioEngine::kPsync) {
    command.emplace_back("--ioengine=psync");
  } else {
    command.insert(command.end(), {"--ioengine=io_uring", fmt::format("--iodepth={}", shares.depth),
                                   "--iodepth_batch_complete_min=1", "--fixedbufs", "--registerfiles"});
  }
  return command;
}

std::uint64_t fio_bytes(const FioJob& job) {
  const Shares shares = share_out(job);
  return shares.bytes * shares.jobs;
}

FioResult parse_fio(std::string_view output, const FioJob& job) {
  const FioOperation operation = job.operation;
  const std::size_t begin = output.find('{');
  const std::size_t end = output.rfind('}');
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) {
    throw Error(failure_of(operation), fmt::format("fio printed no result: {}", output.substr(0, 500)));
  }
  try {
    const json document = json::parse(output.substr(begin, end + 1 - begin));
    const unsigned depth = share_out(job).depth;
    FioResult result;
    for (const json& one : document.at("jobs")) {
      if (const int error = one.at("error"); error != 0) {
        throw Error(failure_of(operation), fmt::format("fio failed with error {}", error));
      }
      const json& part = one.at(operation == FioOperation::kRead ? "read" : "write");
      result.elapsed_ns = std::max(result.elapsed_ns, elapsed_of(part, depth));
      result.bytes += part.at("io_bytes").get<std::uint64_t>();
      // CPU shares are percentages of the time of the job, which is in milliseconds.
      const double cpu_percent = one.at("usr_cpu").get<double>() + one.at("sys_cpu").get<double>();
      result.cpu_ns +=
          static_cast<std::uint64_t>(std::llround(cpu_percent * one.at("job_runtime").get<double>() * 1e4));
      add_latencies(part.at("clat_ns"), result.latency);
      add_latencies(part.at("slat_ns"), result.submission);
    }
    result.version = document.at("fio version");
    if (result.elapsed_ns == 0 || result.bytes == 0) throw Error(failure_of(operation), "fio moved nothing");
    result.rate = static_cast<double>(result.bytes) / (static_cast<double>(result.elapsed_ns) / 1e9);
    return result;
  } catch (const json::exception& error) {
    throw Error(failure_of(operation), fmt::format("cannot parse the result of fio: {}", json_problem(error)));
  }
}

std::optional<std::uint64_t> fio_span_ns(std::string_view log) {
  if (log.empty()) return {};
  constexpr std::int64_t kMillisecondNs = 1'000'000;
  std::int64_t first_ns = std::numeric_limits<std::int64_t>::max();
  std::int64_t last_ns = 0;
  while (!log.empty()) {
    const std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(line.size() + 1, log.size()));
    std::int64_t end_ms = 0, taken_ns = 0;
    const auto [comma, bad_end] = std::from_chars(line.data(), line.data() + line.size(), end_ms);
    const std::string_view rest = line.substr(static_cast<std::size_t>(comma - line.data()));
    const std::size_t taken_at = std::min(rest.find_first_not_of(", "), rest.size());
    const auto [end, bad_taken] = std::from_chars(rest.data() + taken_at, rest.data() + rest.size(), taken_ns);
    if (bad_end != std::errc() || bad_taken != std::errc()) return {};
    first_ns = std::min(first_ns, end_ms * kMillisecondNs - taken_ns);
    last_ns = std::max(last_ns, end_ms * kMillisecondNs);
  }
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, last_ns - kMillisecondNs - first_ns));
}

FioResult run_fio(const FioJob& job) {
  prepare_file(job);
  const LogsRemoved at_the_end(job);
  const CommandResult ran = run_command(fio_command(job), job.timeout);
  if (!ran.end.empty()) {
    throw Error(failure_of(job.operation), fmt::format("fio ended with {}: {}", ran.end, ran.error_tail));
  }
  FioResult result = parse_fio(ran.output, job);
  if (const std::uint64_t bytes = fio_bytes(job); result.bytes != bytes) {
    throw Error(failure_of(job.operation), fmt::format("fio moved {} bytes, not {}", result.bytes, bytes));
  }
  const auto span_ns = fio_span_ns(read_text(log_name(job) + "_lat.log").value_or(""));
  if (!span_ns) throw Error(failure_of(job.operation), "fio logged no latencies");
  result.elapsed_ns = std::max(result.elapsed_ns, *span_ns);
  result.rate = static_cast<double>(result.bytes) / (static_cast<double>(result.elapsed_ns) / 1e9);
  return result;
}

std::optional<double> fio_huge_share(const FioJob& job) {
  prepare_file(job);
  const LogsRemoved at_the_end(job);
  const OutputFile output;
  const Descriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  Child child(fio_command(job), nothing.get(), output.descriptor(), output.descriptor());
  // It has most memory while it uses all its buffers.
  PageCount most;
  const Clock::time_point end = Clock::now() + job.timeout;
  while (Clock::now() < end && !child.wait_until(Clock::now() + std::chrono::milliseconds(2))) {
    const auto smaps = read_text(fmt::format("/proc/{}/smaps", child.pid()));
    const PageCount seen = count_large(smaps.value_or(""), job.block_bytes);
    if (seen.anonymous_bytes >= most.anonymous_bytes) most = seen;
  }
  return most.huge_share();
}

}  // namespace tzmark::bench
