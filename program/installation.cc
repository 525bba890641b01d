// See program/installation.h.
#include "program/installation.h"

namespace tzmark {

std::filesystem::path installation_prefix() {
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::filesystem::path above = folder.parent_path();
  const bool is_sibling = folder.filename() == "tzmark" && above.filename() == "libexec";
  return is_sibling ? above.parent_path() : above;
}

std::filesystem::path sibling_folder() { return installation_prefix() / "libexec/tzmark"; }

std::filesystem::path data_folder() { return installation_prefix() / "share/tzmark"; }

}  // namespace tzmark
