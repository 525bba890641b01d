// Whole files; see file_content.h.
#include "runner/file_content.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "program/output_file.h"
#include "runner/descriptor.h"
#include "runner/errors.h"

namespace tzmark::conformance {
namespace {

namespace fs = std::filesystem;

EnvironmentError not_writable(const fs::path& path, int error) {
  return EnvironmentError(fmt::format("{}: cannot be written: {}", path.string(), std::strerror(error)));
}

// REQUIRES: directory exists. path is named in the error.
void check_writable_directory(const fs::path& directory, const fs::path& path) {
  std::error_code none;
  if (!fs::is_directory(directory, none)) throw not_writable(path, ENOTDIR);
  if (::access(directory.c_str(), W_OK | X_OK) != 0) throw not_writable(path, errno);
}

void write_all(const Descriptor& file, const fs::path& path, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(file.get(), content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw not_writable(path, errno);
    content.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::uint64_t physical_memory_bytes() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

std::vector<std::byte> read_file(const std::filesystem::path& path, std::uint64_t size_max_bytes) {
  const auto fail = [&](const std::string& reason) {
    return EnvironmentError(fmt::format("{}: {}", path.string(), reason));
  };
  // Without O_NONBLOCK, opening a FIFO would wait for a writer.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  struct stat status {};
  if (!file.open() || ::fstat(file.get(), &status) != 0) throw fail(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) throw fail("is not a file");
  const auto size_bytes = static_cast<std::uint64_t>(status.st_size);
  if (size_bytes > size_max_bytes) throw fail(fmt::format("has {} bytes, more than {}", size_bytes, size_max_bytes));
  if (const std::uint64_t memory_bytes = physical_memory_bytes(); size_bytes > memory_bytes) {
    throw fail(fmt::format("has {} bytes, and this machine has memory for {}", size_bytes, memory_bytes));
  }
  std::vector<std::byte> content(size_bytes);
  std::size_t done_bytes = 0;
  while (done_bytes < content.size()) {
    const ssize_t got = ::read(file.get(), content.data() + done_bytes, content.size() - done_bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw fail(std::strerror(errno));
    if (got == 0) break;
    done_bytes += static_cast<std::size_t>(got);
  }
  // Someone may have shortened it meanwhile.
  content.resize(done_bytes);
  return content;
}

std::vector<std::byte> read_named_file(const fs::path& path, std::uint64_t size_max_bytes) {
  std::error_code error;
  const fs::path file = fs::canonical(path, error);
  if (error) throw EnvironmentError(fmt::format("{}: {}", path.string(), error.message()));
  return read_file(file, size_max_bytes);
}

void check_output_file(const fs::path& path) {
  try {
    tzmark::check_output_file(path);
  } catch (const std::system_error& error) {
    throw EnvironmentError(error.what());
  }
}

void check_output_files(const std::vector<std::string>& outputs, const std::vector<std::string>& inputs) {
  std::vector<std::pair<std::string, fs::path>> taken;
  for (const std::string& input : inputs) {
    std::error_code absent;
    if (const fs::path file = fs::canonical(input, absent); !input.empty() && !absent) taken.emplace_back(input, file);
  }
  for (const std::string& output : outputs) {
    if (output.empty()) continue;
    check_output_file(output);
    // The name of a descriptor can lead to a pipe, which has no path.
    std::error_code has_no_path;
    fs::path file = fs::weakly_canonical(output, has_no_path);
    if (has_no_path) file = fs::absolute(output);
    for (const auto& [name, other] : taken) {
      std::error_code absent;
      if (file != other && !fs::equivalent(file, other, absent)) continue;
      throw UsageError(fmt::format("{} would overwrite {}", output, name == output ? "itself" : name));
    }
    taken.emplace_back(output, file);
  }
}

void check_output_directory(const fs::path& path) {
  std::error_code none;
  fs::path directory = fs::absolute(path);
  while (!fs::exists(directory, none) && directory.has_relative_path()) directory = directory.parent_path();
  check_writable_directory(directory, path);
}

void write_file(const fs::path& path, std::string_view content) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw not_writable(path, errno);
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!file.open()) throw not_writable(path, errno);
  write_all(file, path, content);
}

bool overwrite_file(const fs::path& path, std::string_view content) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (!file.open() || ::fstat(file.get(), &status) != 0) return false;
  if (!S_ISREG(status.st_mode) || status.st_nlink != 1 || (status.st_mode & S_IRUSR) == 0) return false;
  if (::ftruncate(file.get(), 0) != 0) return false;
  write_all(file, path, content);
  return true;
}

void write_output_file(const fs::path& path, std::string_view content) {
  try {
    tzmark::write_output_file(path, content);
  } catch (const std::system_error& error) {
    throw EnvironmentError(error.what());
  }
}

}  // namespace tzmark::conformance
