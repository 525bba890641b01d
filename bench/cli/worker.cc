// Takes samples on demand, and demands them; see worker.h.
#include "cli/worker.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/bench_commands.h"
#include "cli/matrix.h"
#include "cli/result_document.h"
#include "harness/errno_error.h"
#include "harness/json_problem.h"
#include "harness/peer.h"
#include "program/standard_streams.h"
#include "tzmark/version.h"

namespace tzmark::bench {
namespace {

using nlohmann::json;

constexpr int kProtocol = 1;

void answer_line(const json& line) { print(line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"); }

// The name of this program's file, and what changes if another file takes its name.
std::string program_state() {
  const std::string name = std::filesystem::read_symlink("/proc/self/exe");
  struct stat status {};
  if (::stat("/proc/self/exe", &status) != 0) throw errno_error(ErrorCode::kReadFailed, "/proc/self/exe");
  return fmt::format("{} ({}:{}, {}.{:09})", name, status.st_dev, status.st_ino, status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec);
}

json take(Measured& line) {
  if (line.samples.empty()) line.subject->verify();
  take_sample(line);
  const Sample& sample = line.samples.back();
  return {{"id", line.description().id()},
          {"bytes", line.description().bytes},
          {"elapsed_ns", sample.elapsed_ns},
          {"sync_ns", sample.sync_ns.value_or(0)},
          {"disturbance",
           {{"elapsed_ns", sample.disturbance.elapsed_ns},
            {"other_user_ns", sample.disturbance.other_user_ns},
            {"steal_ns", sample.disturbance.steal_ns}}}};
}

json answer(std::vector<Measured>& lines, const json& request) {
  const auto line = request.at("line").get<std::size_t>();
  json answer;
  try {
    answer = take(lines.at(line));
  } catch (const Error& error) {
    answer = {{"failed", error.message()},
              {"unavailable", error.error_class() == ErrorClass::kUnavailable},
              {"wrong", means_wrong_bytes(error)}};
  }
  answer["line"] = line;
  return answer;
}

void serve_samples(BenchOptions options) {
  options.no_ceilings = true;  // loops of the bench, not of what builds differ by
  // An answer that is not read ends this process by an exception, so that its files are removed.
  ::signal(SIGPIPE, SIG_IGN);
  Workplace place(options.directory);
  std::vector<Measured> lines = matrix_subjects(options, place, matrix_content(options));
  json hello = {{"protocol", kProtocol},      {"version", version()},
                {"commit", commit()},         {"measuring_core", kMeasuringCoreVersion},
                {"program", program_state()}, {"executable", std::filesystem::read_symlink("/proc/self/exe").string()},
                {"lines", json::array()}};
  for (const Measured& line : lines) hello["lines"].push_back(line.description().id());
  answer_line(hello);
  for (std::string text; std::getline(std::cin, text);) {
    const json request = json::parse(text, nullptr, false);
    const std::string op = request.is_object() ? request.value("op", "") : "";
    if (op == "quit") return;
    if (op != "run") throw Error(ErrorCode::kUsage, fmt::format("a worker cannot do '{:.100}'", text));
    answer_line(answer(lines, request));
  }
}

}  // namespace

void add_worker(CLI::App& bench) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App& worker = *bench.add_subcommand("worker", "Take samples for another process")->group("");
  add_directory(worker, options->directory)->required();
  add_subjects(worker, *options, {.scale = "256MiB", .io = "all", .verify = "none"});
  worker.get_option("--scale")->required();
  worker.callback([options] { serve_samples(*options); });
}

WorkerProcess::WorkerProcess(const std::vector<std::string>& argv) {
  try {
    process_ = std::make_unique<Peer>(argv);
    const json& hello = process_->hello();
    if (hello.value("protocol", 0) != kProtocol) {
      throw Error(ErrorCode::kUnavailable,
                  fmt::format("speaks protocol {}, not {}", hello.value("protocol", 0), kProtocol));
    }
    facts_ = {.version = hello.at("version"),
              .commit = hello.at("commit"),
              .program = hello.at("program"),
              .executable = hello.value("executable", ""),
              .measuring_core = hello.at("measuring_core"),
              .lines = hello.at("lines")};
  } catch (const json::exception& error) {
    throw Error(ErrorCode::kUnavailable, fmt::format("{} is no worker: {}", argv.front(), json_problem(error)));
  } catch (const Error& error) {
    throw Error(ErrorCode::kUnavailable,
                fmt::format("{} cannot be measured in turn: {}", argv.front(), error.message()));
  }
  ids_.resize(facts_.lines.size());
}

WorkerProcess::~WorkerProcess() = default;

bool WorkerProcess::is_running() const { return process_->is_running(); }

TurnSample WorkerProcess::sample(std::size_t line) {
  // A sample takes seconds. One that hangs must not take the time of all other lines.
  constexpr std::chrono::minutes kTimeout{2};
  const json reply = process_->request({{"op", "run"}, {"line", line}}, kTimeout);
  try {
    if (reply.at("line") != line) {
      throw Error(ErrorCode::kResource, fmt::format("{} answered for another line", facts_.program));
    }
    if (reply.contains("failed")) {
      std::string message = reply.at("failed");
      if (message.empty()) message = "failed without a reason";
      if (reply.at("wrong")) throw Error(ErrorCode::kFileChanged, fmt::format("{}: {}", facts_.program, message));
      throw Error(reply.at("unavailable") ? ErrorCode::kUnavailable : ErrorCode::kResource, message);
    }
    ids_.at(line) = reply.at("id");
    const double elapsed_ns = reply.at("elapsed_ns").get<double>() + reply.at("sync_ns").get<double>();
    const auto bytes = reply.at("bytes").get<std::uint64_t>();
    const double seconds_per_byte = elapsed_ns / 1e9 / static_cast<double>(bytes);
    if (bytes == 0 || !std::isnormal(seconds_per_byte) || !std::isnormal(1 / seconds_per_byte) ||
        seconds_per_byte < 0) {
      throw Error(ErrorCode::kResource, fmt::format("{} moved {} bytes in {} ns", facts_.program, bytes, elapsed_ns));
    }
    const json& disturbance = reply.at("disturbance");
    return {.seconds_per_byte = seconds_per_byte,
            .bytes = bytes,
            .disturbance = {.elapsed_ns = disturbance.at("elapsed_ns"),
                            .other_user_ns = disturbance.at("other_user_ns"),
                            .steal_ns = disturbance.at("steal_ns")}};
  } catch (const json::exception& error) {
    throw Error(ErrorCode::kResource,
                fmt::format("{} answered {:.200}: {}", facts_.program, reply.dump(), json_problem(error)));
  }
}

}  // namespace tzmark::bench
