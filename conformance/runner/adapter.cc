// An implementation under test, one process a question; see adapter.h.
#include "adapter.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "errors.h"
#include "scratch_file.h"

namespace tzmark::conformance {
namespace {

// Enough for an implementation that compiles or imports much when it starts for the first time.
constexpr auto kCapabilitiesElapsedMax = std::chrono::minutes(1);

}  // namespace

Adapter::Adapter(std::vector<std::string> argv, const std::atomic<bool>& cancelled)
    : argv_(std::move(argv)), cancelled_(cancelled) {
  std::vector<std::string> command = argv_;
  command.push_back("capabilities");
  const ProcessResult process = run_process(command, {.elapsed_max = kCapabilitiesElapsedMax}, cancelled_);
  if (process.end != ProcessEnd::kExited || process.exit_status != 0) {
    // An answer to any command says in words how such a process ended.
    const std::string end = process.end == ProcessEnd::kExited ? fmt::format("exit status {}", process.exit_status)
                                                               : read_answer(Command::kDecode, process).text;
    throw EnvironmentError(fmt::format("the adapter's capabilities: {}; its stderr ends in: {}", end,
                                       one_line(process.stderr_tail, 1000)));
  }
  profile_ = parse_profile(process.stdout_text);
  // Limits count from here, so that what cannot be measured exactly is decided in the adapter's favour.
  idle_rss_bytes_ = process.rss_bound_bytes;
  idle_elapsed_ = process.elapsed;
}

Step Adapter::ask(Command command, const std::filesystem::path& file, const Case& item,
                  std::chrono::nanoseconds elapsed_max, std::uint64_t memory_max_bytes) const {
  std::vector<std::string> argv = argv_;
  argv.push_back(std::string(name_of(command)));
  argv.push_back(file.string());
  std::unique_ptr<ScratchFile> secret;
  if (item.key_hex || item.passphrase) {
    secret = std::make_unique<ScratchFile>(item.key_hex ? *item.key_hex : *item.passphrase);
    argv.push_back(item.key_hex ? "--key-file" : "--passphrase-file");
    argv.push_back(secret->path().string());
  }
  Step step;
  step.command = command;
  step.process = run_process(
      argv, {.elapsed_max = idle_elapsed_ + elapsed_max, .rss_max_bytes = idle_rss_bytes_ + memory_max_bytes},
      cancelled_);
  step.answer = read_answer(command, step.process);
  return step;
}

}  // namespace tzmark::conformance
