// Runs one encode case: gives the adapter a specification, and judges the file that it writes.
//
// Thread-safety: pure functions of their arguments and the file system.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "adapter.h"
#include "judge.h"
#include "manifest.h"

namespace tzmark::conformance {

// The specification, its data and what the adapter wrote stay in kept/ID if kept is given. Throws EnvironmentError if
// the specification cannot be read or made into files.
Step run_encode_case(const Manifest& manifest, const Case& item, const Adapter& adapter,
                     std::chrono::nanoseconds elapsed_max, std::uint64_t memory_max_bytes,
                     const std::optional<std::filesystem::path>& kept);

}  // namespace tzmark::conformance
