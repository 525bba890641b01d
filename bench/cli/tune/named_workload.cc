// Sizes are in the units of other options; see named_workload.h.
#include "cli/tune/named_workload.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <optional>

#include "tzmark/error.h"
#include "workloads/workload.h"

namespace tzmark::bench {

NamedWorkload parse_named_workload(const std::string& text) {
  const std::size_t slash = text.find('/');
  std::optional<std::uint64_t> bytes;
  if (slash != std::string::npos) {
    std::string size = text.substr(slash + 1);
    try {
      size = CLI::AsSizeValue(false)(size).empty() ? size : "";
    } catch (const CLI::Error&) {
      size.clear();
    }
    std::uint64_t value = 0;
    if (size.empty() || !CLI::detail::lexical_cast(size, value) || value == 0) {
      throw Error(ErrorCode::kUsage, fmt::format("'{}' has no size such as 64MiB after the slash", text));
    }
    bytes = value;
  }
  const Workload workload = make_workload(text.substr(0, slash), bytes);
  return {text, workload.tensors.size(), workload.data_bytes()};
}

}  // namespace tzmark::bench
