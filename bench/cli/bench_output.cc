// Fills and publishes the documents of a run; see bench_output.h.
#include "cli/bench_output.h"

#include <fmt/format.h>

#include <csignal>
#include <filesystem>
#include <system_error>

#include "cli/bench_commands.h"
#include "harness/ceilings.h"
#include "harness/cgroup.h"
#include "tzmark/io.h"

namespace tzmark::bench {
namespace {

std::optional<ResultFile> result_file(const std::string& name, const std::string& directory) {
  std::optional<ResultFile> file;
  if (!name.empty()) file.emplace(name);
  if (is_url(directory)) return file;
  // A failure shows when the directory is first used.
  std::error_code ignored;
  std::filesystem::create_directories(directory, ignored);
  return file;
}

}  // namespace

BenchOutput::BenchOutput(const ResultOptions& options, const std::vector<std::string>& command,
                         const std::string& directory, const DataSize& size)
    : file_(result_file(options.json_file, directory)), document(command, directory) {
  if (!size.note.empty()) document.add_note(size.note);
  if (options.format == "google") google.emplace(command);
}

void BenchOutput::note_small_ceilings(unsigned threads) {
  const CgroupLimits limits = cgroup_limits();
  const std::size_t bytes = working_set_bytes(thread_count(threads), limits);
  if (bytes == kWorkingSetBytes) return;
  document.add_note(fmt::format("ceilings work on {} MiB per thread instead of {} MiB: {}", bytes >> 20,
                                kWorkingSetBytes >> 20, limit_text(limits)));
}

void BenchOutput::add(const std::vector<Measured>& measured) {
  document.add(measured);
  if (google) google->add(measured);
}

void BenchOutput::finish(unsigned rounds, std::uint64_t seed) {
  if (!google) {
    for (const std::string& warning : document.warnings()) say("note: {}\n", warning);
  }
  if (file_) file_->commit(document.finish(rounds, seed));
  if (google) print(json_text(google->finish()));
  // The caller, a shell for example, learns by which signal the program ended.
  if (signal != 0) static_cast<void>(::raise(signal));
}

}  // namespace tzmark::bench
