// See program/installation.h.
#include "program/installation.h"

namespace tzmark {

std::filesystem::path installation_prefix() {
  const std::filesystem::path directory = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::filesystem::path above = directory.parent_path();
  const bool is_sibling = directory.filename() == "tzmark" && above.filename() == "libexec";
  return is_sibling ? above.parent_path() : above;
}

std::filesystem::path sibling_directory() { return installation_prefix() / "libexec/tzmark"; }

std::filesystem::path data_directory() { return installation_prefix() / "share/tzmark"; }

}  // namespace tzmark
