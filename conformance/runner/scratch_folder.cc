// A folder for the files of one case; see scratch_folder.h.
#include "runner/scratch_folder.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include "runner/console.h"
#include "runner/errors.h"
#include "runner/folder_tree.h"

namespace tzmark::conformance {

namespace fs = std::filesystem;

ScratchFolder::ScratchFolder(const std::optional<fs::path>& kept) : kept_(kept.has_value()) {
  if (kept) {
    std::error_code error;
    fs::create_directories(*kept, error);
    if (error) throw EnvironmentError(fmt::format("{}: {}", kept->string(), error.message()));
    path_ = fs::canonical(*kept);
    return;
  }
  std::string name = fs::temp_directory_path() / "tzmark-XXXXXX";
  if (!::mkdtemp(name.data())) throw EnvironmentError(fmt::format("{}: {}", name, std::strerror(errno)));
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  if (!kept_) tell_failure_of([&] { remove_folder(path_); });
}

}  // namespace tzmark::conformance
