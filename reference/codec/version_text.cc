// What this build is and has: its layouts and I/O paths by their own tables.
#include <fmt/format.h>

#include "bytes/build_facts.h"
#include "tzmark/format.h"
#include "tzmark/io.h"
#include "tzmark/version.h"

namespace tzmark {

std::string version_text() {
  std::string layouts, paths;
  for (const Layout layout : kLayouts) layouts += fmt::format(" {}", layout_name(layout));
  for (const IoPath& path : io_paths()) paths += fmt::format(" {}", path.name);
  return fmt::format("tzmark {} (commit {})\ncompiled in: layouts{}; safetensors; I/O paths{}; {}\nbuilt with {}",
                     version(), commit(), layouts, paths, optional_parts(), built_with());
}

}  // namespace tzmark
