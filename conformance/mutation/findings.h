// A folder of failures as a corpus of its own: the files, a manifest, and for each one the command that repeats it.
//
// `tzmark conform --corpus DIR` runs them again, and whoever takes one into another corpus copies the file, what it is
// expected to hold, and its entry.
//
// Thread-safety: one object belongs to one thread.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "runner/judge.h"
#include "runner/manifest.h"

namespace tzmark::conformance::mutation {

struct Finding {
  Case item;  // but for path, sha256, size_bytes and expected, which follow
  std::vector<std::byte> bytes;
  std::optional<Json> expected;
  std::string outcome;  // as reports spell it
  std::string reason;
  std::string repeat;  // a command line
};

class Findings {
 public:
  // Makes the folder. Throws EnvironmentError if that cannot be, or if it is there already and not empty.
  explicit Findings(const std::filesystem::path& directory);

  // Writes the file and its ID.finding.json, and the manifest anew. Returns the path of the file. Throws
  // EnvironmentError if something cannot be written.
  std::filesystem::path add(const Finding& finding);

  const std::filesystem::path& directory() const { return directory_; }

 private:
  std::filesystem::path directory_;
  Json manifest_;
};

}  // namespace tzmark::conformance::mutation
