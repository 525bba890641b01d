// Links to libraries whose path LD_PRELOAD would split; see preload.h.
#include "runner/preload.h"

#include <fmt/format.h>

#include <cstdlib>
#include <system_error>

#include "runner/errors.h"

namespace tzmark::conformance {

namespace fs = std::filesystem;

bool can_be_preloaded(const fs::path& library) {
  // The loader takes a dollar sign for the beginning of $ORIGIN and its like.
  return library.native().find_first_of(" :$") == std::string::npos;
}

std::string preload_setting(const fs::path& library) {
  const char* const others = std::getenv("LD_PRELOAD");
  return fmt::format("LD_PRELOAD={}{}{}", library.native(), others == nullptr ? "" : ":",
                     others == nullptr ? "" : others);
}

std::string sanitizer_setting() {
  const char* const others = std::getenv("ASAN_OPTIONS");
  return fmt::format("ASAN_OPTIONS={}{}verify_asan_link_order=0", others == nullptr ? "" : others,
                     others == nullptr ? "" : ":");
}

Preload::Preload(const fs::path& library) : path_(fs::absolute(library)) {
  if (can_be_preloaded(path_)) return;
  directory_.emplace();
  const fs::path link = directory_->path() / "preloaded.so";
  if (!can_be_preloaded(link)) {
    throw EnvironmentError(
        fmt::format("{}: libraries cannot be preloaded from a path with a space, a colon or a dollar sign in it; set "
                    "TMPDIR to a directory without them",
                    link.string()));
  }
  std::error_code error;
  fs::create_symlink(path_, link, error);
  if (error) throw EnvironmentError(fmt::format("{}: {}", link.string(), error.message()));
  path_ = link;
}

}  // namespace tzmark::conformance
