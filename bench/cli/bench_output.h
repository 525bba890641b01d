// The documents that a run of tzmark bench fills, and how it ends once they are out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/bench_options.h"
#include "cli/data_size.h"
#include "cli/google_document.h"
#include "cli/result_document.h"
#include "cli/run_program.h"
#include "tzmark/error.h"

namespace tzmark::bench {

class BenchOutput {
  std::optional<ResultFile> file_;  // before the document, so that an unwritable name fails first

 public:
  // Opens the file of the result and creates the directory to measure. REQUIRES: the file replaces no input.
  BenchOutput(const ResultOptions& options, const std::vector<std::string>& command, const std::string& directory,
              const DataSize& size);

  // Notes that ceilings work on less than usual, which may fit into a cache.
  void note_small_ceilings(unsigned threads);
  void add(const std::vector<Measured>& measured);
  // Prints the notes and publishes the result; then ends the process by the signal, if there was one.
  void finish(unsigned rounds, std::uint64_t seed);

  Document document;
  std::optional<GoogleDocument> google;  // only if that format was chosen
  int signal = 0;                        // that ended the run
};

}  // namespace tzmark::bench
