// An implementation under test, spoken to in the one-shot form of the adapter protocol: one process a question.
//
// Thread-safety: ask may be called from several threads at once.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "judge.h"
#include "manifest.h"
#include "process.h"
#include "protocol.h"

namespace tzmark::conformance {

class Adapter {
 public:
  // Asks for the capabilities, at most for a minute. Throws EnvironmentError if the command cannot be started or does
  // not print a profile. cancelled must outlive the adapter.
  Adapter(std::vector<std::string> argv, const std::atomic<bool>& cancelled);

  const std::vector<std::string>& argv() const { return argv_; }
  const Profile& profile() const { return profile_; }
  // What the implementation takes to start and do nothing, at most; limits of cases count from there.
  std::uint64_t idle_rss_bytes() const { return idle_rss_bytes_; }
  std::chrono::nanoseconds idle_elapsed() const { return idle_elapsed_; }

  // Runs one command on the file of a case, within the limits given. Throws EnvironmentError if it cannot be started.
  Step ask(Command command, const std::filesystem::path& file, const Case& item, std::chrono::nanoseconds elapsed_max,
           std::uint64_t memory_max_bytes) const;

 private:
  std::vector<std::string> argv_;
  const std::atomic<bool>& cancelled_;
  Profile profile_;
  std::uint64_t idle_rss_bytes_ = 0;
  std::chrono::nanoseconds idle_elapsed_{0};
};

}  // namespace tzmark::conformance
