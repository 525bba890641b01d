// Runs one encode case: gives the adapter a specification, and judges the file that it writes.
//
// Thread-safety: Nonces may be used by several threads; the function is one of its arguments and the file system.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "runner/adapter.h"
#include "runner/judge.h"
#include "runner/manifest.h"

namespace tzmark::conformance {

// The nonces that an adapter took in all files of a run: none may serve twice under one key.
class Nonces {
 public:
  // The case that this nonce served under this key before; nothing the first time. id is that of the case now.
  std::optional<std::string> take(const std::string& key_hex, const std::string& nonce, const std::string& id);

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::string> taken_;
};

// The specification, its data and what the adapter wrote stay in kept/ID if kept is given. Throws EnvironmentError if
// the specification cannot be read or made into files.
Step run_encode_case(const Manifest& manifest, const Case& item, const Adapter& adapter,
                     std::chrono::nanoseconds elapsed_max, std::uint64_t memory_max_bytes,
                     const std::optional<std::filesystem::path>& kept, Nonces& nonces);

}  // namespace tzmark::conformance
