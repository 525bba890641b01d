// Runs fio and reads its JSON; see fio.h.
#include "harness/fio.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "harness/process.h"
#include "tzmark/error.h"

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

LatencySummary latency_of(const json& clat) {
  const auto at = [&](const char* key) { return clat.at("percentile").at(key).get<std::uint64_t>(); };
  if (clat.at("N") == 0) return {};
  return {clat.at("N"), at("50.000000"), at("90.000000"), at("99.000000"), at("99.900000"), clat.at("max")};
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
  std::vector<std::string> command = {
      "fio",
      "--name=tzmark",
      fmt::format("--filename={}", escaped(job.file_name)),
      fmt::format("--rw={}", reads ? "read" : "write"),
      fmt::format("--bs={}", job.block_bytes),
      fmt::format("--size={}", shares.bytes),
      fmt::format("--offset_increment={}", shares.bytes),
      fmt::format("--numjobs={}", shares.jobs),
      fmt::format("--direct={}", job.direct ? 1 : 0),
      fmt::format("--fallocate={}", job.reserve ? "native" : "none"),
      "--thread",
      "--invalidate=0",
      "--end_fsync=0",
      "--group_reporting",
      "--percentile_list=50:90:99:99.9",
      "--output-format=json",
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

FioResult parse_fio(std::string_view output, FioOperation operation) {
  const std::size_t begin = output.find('{');
  const std::size_t end = output.rfind('}');
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) {
    throw Error(failure_of(operation), fmt::format("fio printed no result: {}", output.substr(0, 500)));
  }
  try {
    const json document = json::parse(output.substr(begin, end + 1 - begin));
    const json& job = document.at("jobs").at(0);
    if (const int error = job.at("error"); error != 0) {
      throw Error(failure_of(operation), fmt::format("fio failed with error {}", error));
    }
    const json& part = job.at(operation == FioOperation::kRead ? "read" : "write");
    FioResult result;
    result.elapsed_ns = part.at("runtime").get<std::uint64_t>() * 1'000'000;
    result.bytes = part.at("io_bytes");
    // CPU shares are percentages of the total time of all jobs, which is in milliseconds.
    const double cpu_percent = job.at("usr_cpu").get<double>() + job.at("sys_cpu").get<double>();
    result.cpu_ns = static_cast<std::uint64_t>(std::llround(cpu_percent * job.at("job_runtime").get<double>() * 1e4));
    result.latency = latency_of(part.at("clat_ns"));
    result.version = document.at("fio version");
    if (result.elapsed_ns == 0 || result.bytes == 0) {
      throw Error(failure_of(operation), "fio moved nothing, or took less than a millisecond");
    }
    result.rate = static_cast<double>(result.bytes) / (static_cast<double>(result.elapsed_ns) / 1e9);
    return result;
  } catch (const json::exception& error) {
    throw Error(failure_of(operation), fmt::format("cannot parse the result of fio: {}", error.what()));
  }
}

FioResult run_fio(const FioJob& job) {
  if (job.operation == FioOperation::kRead) {
    require_file(job);
  } else {
    std::error_code absent;
    std::filesystem::remove(job.file_name, absent);
  }
  const std::vector<std::string> command = fio_command(job);
  const CommandResult ran = run_command(command, job.timeout);
  if (!ran.end.empty()) {
    throw Error(failure_of(job.operation), fmt::format("fio ended with {}: {}", ran.end, ran.error_tail));
  }
  FioResult result = parse_fio(ran.output, job.operation);
  const Shares shares = share_out(job);
  if (result.bytes != shares.bytes * shares.jobs) {
    throw Error(failure_of(job.operation),
                fmt::format("fio moved {} bytes, not {}", result.bytes, shares.bytes * shares.jobs));
  }
  return result;
}

}  // namespace tzmark::bench
