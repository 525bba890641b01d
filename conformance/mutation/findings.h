// A directory of failures as a corpus of its own: the files, a manifest, and for each one the command that repeats it.
// `tzmark conform --corpus DIR` runs them again. To add one to another corpus, copy the file, its expected content and
// its entry in the manifest.
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
  Case item;                     // path, sha256, size_bytes and expected are filled in
  std::vector<std::byte> bytes;  // of the file, or of the specification if it is an encode case
  std::optional<Json> expected;
  std::string outcome;  // as in reports
  std::string reason;
  std::string repeat;  // a command line
};

class Findings {
 public:
  // Makes the directory. Throws EnvironmentError if it cannot be made, or exists and is not empty.
  explicit Findings(const std::filesystem::path& directory);

  // Writes the file, its ID.finding.json, and the manifest. Returns the path of the file. Throws
  // EnvironmentError if something cannot be written.
  std::filesystem::path add(const Finding& finding);

  const std::filesystem::path& directory() const { return directory_; }

 private:
  std::filesystem::path directory_;
  Json manifest_;
};

}  // namespace tzmark::conformance::mutation
