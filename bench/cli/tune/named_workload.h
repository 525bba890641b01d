// Workloads to predict, as they are named on the command line. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

namespace tzmark::bench {

struct NamedWorkload {
  std::string text;  // as given
  std::uint64_t tensors = 0, bytes = 0;
};

// NAME or NAME/SIZE: "mixtral-8x7b", "many-tiny/64MiB". Throws kUsage for an unknown name or size.
NamedWorkload parse_named_workload(const std::string& text);

}  // namespace tzmark::bench
