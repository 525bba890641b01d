// Runs one encode case: gives the adapter a specification, and judges the file that it writes.
//
// Thread-safety: RandomValues may be used by several threads; the function is one of its arguments and the file system.
#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "runner/adapter.h"
#include "runner/judge.h"
#include "runner/manifest.h"

namespace tzmark::conformance {

// The nonces and salts in all files of a run: no nonce may be used twice under one key, and no salt in two files.
class RandomValues {
 public:
  // Each records a value, and returns the case that used it before, if any. id is the current case.
  std::optional<std::string> take_nonce(const std::string& key_hex, const std::string& nonce, const std::string& id);
  std::optional<std::string> take_salt(const std::string& salt, const std::string& id);

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::string> nonces_;
  std::map<std::string, std::string> salts_;
};

// Keeps the specification, its data and the written file in kept/ID if kept is given. Throws EnvironmentError if the
// specification cannot be read or written as files.
Step run_encode_case(const Manifest& manifest, const Case& item, const Adapter& adapter, const Limits& limits,
                     const std::optional<std::filesystem::path>& kept, RandomValues& random);

// The same with a specification that is not in the corpus. `item` says what is required: its verdict, secret and id.
Step run_encode_case(const Json& specification, const Case& item, const std::optional<Json>& expected,
                     const Adapter& adapter, const Limits& limits, const std::optional<std::filesystem::path>& kept,
                     RandomValues& random);

}  // namespace tzmark::conformance
