// See program/python_path.h.
#include "program/python_path.h"

#include <cstdlib>
#include <string>
#include <string_view>

namespace tzmark {

void keep_python_from_current_directory() {
  const char* const given = std::getenv("PYTHONPATH");
  if (given == nullptr) return;
  std::string kept;
  std::string_view rest = given;
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find(':'));
    rest.remove_prefix(entry.size() < rest.size() ? entry.size() + 1 : entry.size());
    if (!entry.starts_with('/')) continue;
    if (!kept.empty()) kept += ':';
    kept += entry;
  }
  if (kept.empty()) {
    ::unsetenv("PYTHONPATH");
  } else {
    ::setenv("PYTHONPATH", kept.c_str(), 1);
  }
}

}  // namespace tzmark
