// One atomic file per export; see export_files.h.
#include "cli/tune/export_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "tzmark/error.h"
#include "tzmark/io.h"

namespace tzmark::bench {
namespace {

void create_directory(const std::string& name) {
  std::error_code error;
  std::filesystem::create_directories(name, error);
  if (error || !std::filesystem::is_directory(name, error)) {
    throw Error(ErrorCode::kOpenFailed,
                fmt::format("cannot create the directory {}{}{}", name, error ? ": " : "", error.message()));
  }
}

}  // namespace

std::string file_name_of(const Export& one) {
  const std::string name = one.file_name.value_or(one.name + ".txt");
  return one.task == "all" ? name : one.task + "/" + name;
}

ExportFiles::ExportFiles(std::string directory, bool replaces) : directory_(std::move(directory)), replaces_(replaces) {
  create_directory(directory_);
  if (::access(directory_.c_str(), W_OK) != 0) {
    throw Error(ErrorCode::kOpenFailed, fmt::format("cannot write to the directory {}", directory_));
  }
}

std::vector<std::string> ExportFiles::write(const std::vector<Export>& exports) {
  std::vector<std::string> lines;
  for (const Export& one : exports) {
    const std::filesystem::path name = std::filesystem::path(directory_) / file_name_of(one);
    create_directory(name.parent_path());
    if (!replaces_ && std::filesystem::exists(std::filesystem::symlink_status(name))) {
      lines.push_back(fmt::format("kept {}, which exists: --force replaces it", name.string()));
      continue;
    }
    AtomicFile file(name, "auto", replaces_ ? AtomicFile::Existing::kReplace : AtomicFile::Existing::kRefuse);
    file.file().write_at(0, std::as_bytes(std::span(one.text)));
    file.commit();
    lines.push_back(fmt::format("wrote {}", name.string()));
  }
  return lines;
}

}  // namespace tzmark::bench
