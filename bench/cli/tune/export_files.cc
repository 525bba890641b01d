// One atomic file per export; see export_files.h.
#include "cli/tune/export_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "cli/run_program.h"
#include "tzmark/error.h"
#include "tzmark/io.h"
#include "tzmark/profile.h"

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

// The text of a profile, with the tasks that only the old profile of the same storage has: a run for one goal, or one
// that was interrupted, must not lose the answers of others.
std::string with_tasks_of(const std::string& name, const std::string& text) {
  Profile profile = parse_profile(text);
  Profile old;
  try {
    old = load_profile(name);
  } catch (const Error&) {
    return text;  // absent, or not a profile
  }
  if (old.note != profile.note) return text;
  const auto add = [](std::optional<ProfileSettings>& to, const std::optional<ProfileSettings>& from) {
    if (!to) to = from;
  };
  add(profile.load_warm, old.load_warm);
  add(profile.load_cold, old.load_cold);
  add(profile.save, old.save);
  return serialize(profile);
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
    const std::string text = one.name == "tzmark" && replaces_ ? with_tasks_of(name, one.text) : one.text;
    about_file(name.string(), [&] {
      AtomicFile file(name, "auto", replaces_ ? AtomicFile::Existing::kReplace : AtomicFile::Existing::kRefuse);
      file.file().write_at(0, std::as_bytes(std::span(text)));
      file.commit();
    });
    lines.push_back(fmt::format("wrote {}", name.string()));
  }
  return lines;
}

}  // namespace tzmark::bench
