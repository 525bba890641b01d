// See cluster/rank_run.h.
#include "cluster/rank_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "harness/or_null.h"
#include "measure/engine.h"

namespace tzmark::bench {
namespace {

using nlohmann::json;

template <typename T>
std::optional<T> optional_of(const json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<T>());
}

Error error_of(const RankRun& run, std::size_t rank) {
  return Error(*run.error_code, fmt::format("rank {} on {}: {}", rank, run.host, run.error_text));
}

}  // namespace

std::string to_text(const RankRun& run) {
  const json document = {{"host", run.host},
                         {"clock", run.clock},
                         {"began_ns", run.began_ns},
                         {"role", run.role},
                         {"open_ns", or_null(run.open_ns)},
                         {"stall_ns", or_null(run.stall_ns)},
                         {"elapsed_ns", run.elapsed_ns},
                         {"cpu_ns", run.cpu_ns},
                         {"bytes", run.bytes},
                         {"resident_share", or_null(run.resident_share)},
                         {"device_read_bytes", or_null(run.device_read_bytes)},
                         {"device_written_bytes", or_null(run.device_written_bytes)},
                         {"error_code", run.error_code ? json(static_cast<int>(*run.error_code)) : json()},
                         {"error_text", run.error_text}};
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

RankRun rank_run_from(const std::string& text) try {
  const json document = json::parse(text);
  RankRun run;
  run.host = document.at("host");
  run.clock = document.at("clock");
  run.began_ns = document.at("began_ns");
  run.role = document.at("role");
  run.open_ns = optional_of<std::uint64_t>(document.at("open_ns"));
  run.stall_ns = optional_of<std::uint64_t>(document.at("stall_ns"));
  run.elapsed_ns = document.at("elapsed_ns");
  run.cpu_ns = document.at("cpu_ns");
  run.bytes = document.at("bytes");
  run.resident_share = optional_of<double>(document.at("resident_share"));
  run.device_read_bytes = optional_of<std::uint64_t>(document.at("device_read_bytes"));
  run.device_written_bytes = optional_of<std::uint64_t>(document.at("device_written_bytes"));
  if (const auto code = optional_of<int>(document.at("error_code"))) run.error_code = static_cast<ErrorCode>(*code);
  run.error_text = document.at("error_text");
  return run;
} catch (const json::exception& error) {
  throw Error(ErrorCode::kResource, fmt::format("what a rank says of its run cannot be read: {}", error.what()));
}

void begin_together(std::vector<RankRun>& runs) {
  std::map<std::string, std::uint64_t> first;
  for (const RankRun& run : runs) {
    const auto [at, is_new] = first.emplace(run.clock, run.began_ns);
    if (!is_new) at->second = std::min(at->second, run.began_ns);
  }
  for (RankRun& run : runs) {
    const std::uint64_t late_ns = run.began_ns - first[run.clock];
    run.began_ns -= late_ns;
    if (run.open_ns) *run.open_ns += late_ns;
    if (run.stall_ns) *run.stall_ns += late_ns;
    run.elapsed_ns += late_ns;
  }
}

void throw_problem_of(const std::vector<RankRun>& runs) {
  std::optional<Error> first;
  for (std::size_t rank = 0; rank < runs.size(); ++rank) {
    if (!runs[rank].error_code) continue;
    Error error = error_of(runs[rank], rank);
    if (means_wrong_bytes(error)) throw error;
    // That another rank has failed says less than what that one says.
    if (!first || (first->code() == ErrorCode::kCheckpointPeer && error.code() != first->code())) {
      first.emplace(std::move(error));
    }
  }
  if (first) throw *first;
}

}  // namespace tzmark::bench
