// Makes the HTML page of a run; see page.h.
#include "commands/page.h"

#include <fmt/format.h>

#include <cstdlib>
#include <sstream>
#include <string>

#include "model/text.h"
#include "runner/errors.h"
#include "runner/file_content.h"
#include "runner/json.h"
#include "runner/process.h"
#include "runner/scratch_directory.h"
#include "runner/scratch_file.h"

namespace tzmark::conformance {
namespace {

// What render.py exits with when a Python package is missing.
constexpr int kUnavailableStatus = 4;

// The current directory may hold files of others, and relative and empty entries of PYTHONPATH depend on it. The suite
// shares no code with the commands that do the same.
void keep_python_from_current_directory() {
  const char* const given = std::getenv("PYTHONPATH");
  if (given == nullptr) return;
  std::string kept, entry;
  for (std::istringstream entries(given); std::getline(entries, entry, ':');) {
    if (entry.starts_with('/')) kept += (kept.empty() ? "" : ":") + entry;
  }
  if (kept.empty()) {
    ::unsetenv("PYTHONPATH");
  } else {
    ::setenv("PYTHONPATH", kept.c_str(), 1);
  }
}

}  // namespace

void make_page(const std::filesystem::path& renderer, const std::string& json, const std::string& html_file,
               const std::atomic<bool>& cancelled) {
  if (!std::filesystem::exists(renderer)) throw EnvironmentError(fmt::format("{}: no such file", renderer.string()));
  const char* const chosen = std::getenv("TZMARK_PYTHON");
  const std::string python = chosen ? chosen : "python3";
  keep_python_from_current_directory();
  const ScratchFile result(json);
  const ScratchDirectory directory;
  const std::filesystem::path page = directory.path() / "page.html";
  ProcessResult process;
  try {
    process = run_process({python, "-B", renderer, "conformance", result.path(), "-o", page}, {}, cancelled);
  } catch (const EnvironmentError& error) {
    throw UnavailableError(fmt::format("no HTML page without Python: {}", error.what()));
  }
  if (process.end == ProcessEnd::kExited && process.exit_status == 0) {
    return write_output_file(html_file, model::text_of(read_file(page)));
  }
  const std::string reason = fmt::format("no HTML page: {}", one_line(process.stderr_tail, 1000));
  if (process.end == ProcessEnd::kExited && process.exit_status == kUnavailableStatus) throw UnavailableError(reason);
  throw EnvironmentError(reason);
}

}  // namespace tzmark::conformance
