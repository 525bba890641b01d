// The command line of tzmark tune.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tzmark::bench {

struct TuneOptions {
  std::string directory, goal = "both", cache = "both", workload = "gpt2", verification = "none";
  std::string memory = "host";  // that loads end in: host, device
  std::string json_file, export_directory;
  std::uint64_t scale_bytes = 0;         // 0: as much as makes good samples
  std::uint64_t memory_limit_bytes = 0;  // of bytes in flight; 0: no limit
  std::uint64_t budget_s = 120, sustain_s = 0, seed = 1;
  std::vector<std::string> io, predictions;  // empty: all paths; none
  bool progress = false, force = false;
};

}  // namespace tzmark::bench
