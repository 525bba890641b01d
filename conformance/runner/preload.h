// A library to preload into an adapter, by a path that LD_PRELOAD can hold: it splits at spaces and colons.
//
// Thread-safety: one object belongs to one thread.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "runner/scratch_folder.h"

namespace tzmark::conformance {

bool can_be_preloaded(const std::filesystem::path& library);

// The setting for env, with what this process was started with after it: "LD_PRELOAD=/x/library.so".
// REQUIRES: can_be_preloaded(library).
std::string preload_setting(const std::filesystem::path& library);

class Preload {
 public:
  // Where the path cannot be preloaded, a link among the temporary files leads to it while this object lives.
  // Throws EnvironmentError if that cannot be made, or if their folder has such a name too.
  explicit Preload(const std::filesystem::path& library);

  const std::filesystem::path& path() const { return path_; }

 private:
  std::optional<ScratchFolder> folder_;
  std::filesystem::path path_;
};

}  // namespace tzmark::conformance
