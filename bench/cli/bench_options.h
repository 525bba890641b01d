// The command line of tzmark bench.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/gpu_ceilings.h"
#include "harness/sequential.h"

namespace tzmark::bench {

struct BenchOptions {
  bool list_io = false, check = false, encrypt = false, fio = false, peers = false, no_ceilings = false, no_raw = false,
       progress = false;
  std::string directory, json_file, profile_file;
  std::string workload = "gpt2", layout = "v4", memory = "auto", cache = "auto", compute = "auto", format = "text";
  std::uint64_t scale_bytes = 0, gpu_set_bytes = kGpuWorkingSetBytes;
  std::vector<std::string> io, operations = {"read", "write"}, items;
  std::vector<std::string> verifications = {};   // empty: none; with --against none and both
  std::vector<std::uint64_t> block_bytes = {0};  // 0: what suits the path
  std::vector<unsigned> queue_depths = {0}, threads = {0};
  unsigned rounds = 7;
  std::uint64_t seed = 1, budget_s = 600, duration_s = 0;  // duration 0: rounds instead
  bool limits_laps = false, names_workload = false;
  std::string against;  // another tzmark
  bool is_worker = false, force = false;
  double effect = kChangeEffect;
};

}  // namespace tzmark::bench
