// Preloads a library into an adapter, by a path without the spaces and colons at which LD_PRELOAD is split.
//
// Thread-safety: one object belongs to one thread.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "runner/scratch_directory.h"

namespace tzmark::conformance {

bool can_be_preloaded(const std::filesystem::path& library);

// The argument of env, followed by the setting of this process: "LD_PRELOAD=/x/library.so".
// REQUIRES: can_be_preloaded(library).
std::string preload_setting(const std::filesystem::path& library);

// The argument of env by which a program with the address sanitizer starts behind a library that is preloaded, which it
// refuses otherwise; its other options stay.
std::string sanitizer_setting();

class Preload {
 public:
  // If the path cannot be preloaded, links to it from the directory for temporary files while this object lives. Throws
  // EnvironmentError if that fails, or if that directory cannot be preloaded from either.
  explicit Preload(const std::filesystem::path& library);

  const std::filesystem::path& path() const { return path_; }

 private:
  std::optional<ScratchDirectory> directory_;
  std::filesystem::path path_;
};

}  // namespace tzmark::conformance
