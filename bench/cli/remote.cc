// tzmark bench remote: how fast a file on a server is read, by range size, number of requests and threads.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/bench_commands.h"
#include "cli/bench_output.h"
#include "cli/data_size.h"
#include "cli/result_table.h"
#include "cli/rounds.h"
#include "cli/run_program.h"
#include "harness/cgroup.h"
#include "harness/interruption.h"
#include "program/installation.h"
#include "subjects/served.h"
#include "tzmark/error.h"
#include "tzmark/io.h"

namespace tzmark::bench {
namespace {

struct RemoteRun {
  std::string url;
  std::vector<std::uint64_t> block_bytes = {0};             // 0: what suits the path
  std::vector<unsigned> queue_depths = {0}, threads = {0};  // 0: the default
  std::vector<std::string> verifications = {"none"};
  std::uint64_t scale_bytes = 0;
  bool curl = false, no_raw = false, peers = false;
  unsigned rounds = 7;
  std::uint64_t seed = 1;
  ResultOptions result = {};
};

std::vector<Measured> remote_subjects(const RemoteRun& given, const SharedFile& file) {
  std::vector<Measured> all;
  const auto add = [&](std::unique_ptr<Subject> subject) { all.push_back({std::move(subject), {}, {}}); };
  for (const std::uint64_t block : given.block_bytes) {
    for (const unsigned depth : given.queue_depths) {
      for (const unsigned threads : given.threads) {
        const IoSettings moving = {.io = "auto", .block_bytes = block, .queue_depth = depth, .threads = threads};
        for (const std::string& name : given.verifications) add(served_load(file, moving, verification_of(name)));
        if (given.no_raw) continue;
        for (const Target target : {Target::kHugePages, Target::kSink}) add(served_raw(file, moving, target));
      }
      // How many threads curl has is its own affair: one.
      if (given.curl) add(served_curl(file, {.io = "auto", .block_bytes = block, .queue_depth = depth}));
    }
  }
  if (given.peers) {
    for (const std::string_view name : {std::string_view("tensorizer"), kPythonModule}) {
      std::string why;
      const auto peer = start_peer(name, installation_prefix(), Pages::kHuge, why);
      if (!peer) add(missing_served_peer(file, name, why));
      for (const std::string& verification : given.verifications) {
        // Neither verifies CRC32 alone.
        if (peer && verification != "crc32") add(served_peer(file, peer, verification != "none"));
      }
    }
  }
  return all;
}

// A server that fails is a failure of the run, whichever of the subjects found it.
void throw_problem_of(const std::vector<Measured>& all) {
  for (const Measured& m : all) {
    if (m.has_failed) throw Error(ErrorCode::kResource, fmt::format("{}: {}", m.description().id(), m.why));
  }
  if (std::ranges::all_of(all, [](const Measured& m) { return m.samples.empty(); })) {
    throw Error(ErrorCode::kUnavailable, fmt::format("nothing could be measured: {}", all.front().why));
  }
}

void run(const RemoteRun& given, const std::vector<std::string>& command) {
  if (!is_url(given.url)) throw Error(ErrorCode::kUsage, "bench remote measures a URL: http://, https:// or s3://");
  constexpr std::uint64_t kScaleBytes = std::uint64_t{1} << 30;
  if (!given.result.json_file.empty()) refuse_to_replace(given.result.json_file, {});
  const DataSize size = data_size(given.scale_bytes, kScaleBytes, {.needed = 2, .comfortable = 3}, cgroup_limits());
  BenchOutput output(given.result, command, given.url, size);
  const auto file = about_file(given.url, [&] { return std::make_shared<ServedFile>(given.url, size.bytes); });
  if (file->bytes() < file->file_bytes()) {
    output.document.add_note(
        fmt::format("raw transfers read the first {} MiB of {} MiB", file->bytes() >> 20, file->file_bytes() >> 20));
  }
  std::vector<Measured> measured = remote_subjects(given, file);
  unsigned rounds = 0;
  {
    const RoundProgress progress(given.result.progress);
    const Interruption interruption;
    rounds =
        run_rounds(measured, {.rounds = given.rounds, .seed = given.seed, .progress = progress.callback(), .stop = [] {
                                return Interruption::number() != 0;
                              }});
    output.signal = Interruption::number();
  }
  if (output.signal != 0) {
    output.document.add_interruption(
        fmt::format("interrupted after {} of {} rounds: only what was measured until then "
                    "is here",
                    rounds, given.rounds));
  }
  output.document.add_workload(file->workload());
  output.add(measured);
  if (!output.google) print_results(measured);
  output.finish(rounds, given.seed);
  if (output.signal == 0) throw_problem_of(measured);
}

}  // namespace

void add_remote(CLI::App& bench, const std::vector<std::string>& command) {
  auto given = std::make_shared<RemoteRun>();
  CLI::App& app = *bench.add_subcommand("remote", "Measure how fast a file on a server is read, by http, https or s3");
  app.add_option("URL", given->url, "A file that is there; loads need a .tensors file, raw transfers any")->required();
  const auto add_list = [&](const char* name, auto& values, const char* text) {
    return app.add_option(name, values, text)->delimiter(',')->allow_extra_args(false);
  };
  add_list("--block", given->block_bytes, "Bytes of a range, comma-separated (default: what suits the path)")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::uint64_t{4096}, std::uint64_t{1} << 30));
  add_list("--depth", given->queue_depths, "Requests in flight over all threads; 0 = the default of the path")
      ->check(CLI::Range(0U, 4096U));
  add_list("--threads", given->threads, "Threads that send requests and compute; 0 = one per core")
      ->check(CLI::Range(0U, 1024U));
  add_list("--verify", given->verifications, "Hashes that loads verify: none, crc32, both (default none)")
      ->check(CLI::IsMember({"none", "crc32", "both"}));
  app.add_option("--scale", given->scale_bytes,
                 "Bytes that raw transfers read at most, from the beginning (default 1GiB)")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::uint64_t{4096}, std::uint64_t{1} << 50));
  app.add_flag("--no-raw", given->no_raw, "Leave out the raw transfers");
  app.add_flag("--curl", given->curl, "Also measure curl, for the same ranges of http and https in parallel");
  app.add_flag("--peers", given->peers, "Also measure tensorizer (scripts/peers installs it) and the Python module");
  app.add_option("--rounds", given->rounds, "Samples per subject; an interval needs 6 or more")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  add_seed(app, given->seed);
  add_format(app, given->result.format);
  add_result(app, given->result);
  app.callback([given, &command] { run(*given, command); });
}

}  // namespace tzmark::bench
