// Recording: from system calls to events of files and directories.
#include "testing/disk/trace.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <stdexcept>

namespace tzmark::test {
namespace {

class Recorder {
 public:
  Recorder(std::string root, FilePool& pool) : root_(std::move(root)), pool_(pool) { add_existing(root_); }

  // Before a call that may take a file's last name.
  void hold_file_of(const Call& call) {
    const std::lock_guard lock(mutex_);
    const bool renames = call.function.starts_with("rename");
    if (!renames && !call.function.starts_with("unlink")) return;
    const std::string& path = renames ? call.new_path : call.path;
    const auto file = find(path);
    if (file && !is_directory(*file)) pool_.hold(path, *file);
  }

  void note_failure() {
    const std::lock_guard lock(mutex_);
    if (!trace_.events_before_failure) trace_.events_before_failure = trace_.events.size();
  }

  void record(const Call& call, std::int64_t result) {
    const std::lock_guard lock(mutex_);
    if (!is_inside(call.path) && !is_inside(call.new_path)) return;
    const std::string_view function = call.function;
    if (function.starts_with("open")) {
      opened(call, static_cast<int>(result));
    } else if (function == "mkdir" || function == "mkdirat") {
      const FileNumber made = add({.entries = DirectoryEntries()});
      numbers_[inode_of(call.path)] = made;
      change_names(call, {{call.path, made}});
    } else if (function == "link" || function == "linkat") {
      // From /proc/self/fd/N, or from a name.
      change_names(call, {{call.new_path, existing(inode_of(call.new_path))}});
    } else if (function == "renameat2" && (call.flags & RENAME_EXCHANGE) != 0) {
      change_names(call, {{call.path, find(call.new_path)}, {call.new_path, find(call.path)}});
    } else if (function.starts_with("rename") && find(call.path) == find(call.new_path)) {
      // Two names of one file stay as they are.
    } else if (function.starts_with("rename")) {
      change_names(call, {{call.path, std::nullopt}, {call.new_path, find(call.path)}});
    } else if (function.starts_with("unlink") || function == "rmdir") {
      change_names(call, {{call.path, std::nullopt}});
    } else if (const auto file = numbers_.find(call.inode); file != numbers_.end()) {
      changed(call, file->second, result);
    }
  }

  DiskTrace finish() {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root_)) {
      if (!entry.is_regular_file()) continue;
      trace_.end[std::filesystem::relative(entry.path(), root_)] = read_whole(entry.path());
      if (const auto file = find(entry.path())) pool_.hold(entry.path(), *file);
    }
    return std::move(trace_);
  }

 private:
  bool is_inside(const std::string& path) const { return path == root_ || path.starts_with(root_ + "/"); }
  bool is_directory(FileNumber file) const { return trace_.files[file].entries.has_value(); }

  static ino_t inode_of(const std::string& path) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) throw std::logic_error("cannot look at " + path);
    return status.st_ino;
  }

  FileNumber existing(ino_t inode) const {
    const auto found = numbers_.find(inode);
    if (found == numbers_.end()) throw std::logic_error("a file that was not recorded");
    return found->second;
  }

  FileNumber add(DiskTrace::StartFile file) {
    entries_.push_back(file.entries.value_or(DirectoryEntries()));
    trace_.files.push_back(std::move(file));
    return trace_.files.size() - 1;
  }

  FileNumber add_existing(const std::string& path) {
    const bool is_directory = std::filesystem::is_directory(path);
    const FileNumber file = add({});
    numbers_[inode_of(path)] = file;
    if (!is_directory) {
      trace_.files[file].content = read_whole(path);
      return file;
    }
    trace_.files[file].entries.emplace();
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      entries_[file][entry.path().filename()] = add_existing(entry.path());
    }
    trace_.files[file].entries = entries_[file];
    return file;
  }

  // By the names as they are recorded.
  std::optional<FileNumber> find(const std::filesystem::path& path) const {
    if (path == root_) return 0;
    if (!is_inside(path)) return std::nullopt;
    const auto parent = find(path.parent_path());
    if (!parent) return std::nullopt;
    const auto found = entries_[*parent].find(path.filename());
    if (found == entries_[*parent].end()) return std::nullopt;
    return found->second;
  }

  void opened(const Call& call, int fd) {
    const bool has_no_name = (call.flags & O_TMPFILE) == O_TMPFILE;
    const auto known = has_no_name ? std::nullopt : find(call.path);
    if (known) {
      if ((call.flags & O_TRUNC) != 0) trace_.events.push_back({DiskEvent::Kind::kResize, *known});
      return;
    }
    if (!has_no_name && (call.flags & O_CREAT) == 0) return;
    struct stat status {};
    if (::fstat(fd, &status) != 0) throw std::logic_error("cannot look at " + call.path);
    const FileNumber file = add({});
    numbers_[status.st_ino] = file;
    if (!has_no_name) change_names(call, {{call.path, file}});
  }

  void changed(const Call& call, FileNumber file, std::int64_t result) {
    DiskEvent event{DiskEvent::Kind::kWrite, file, call.offset, call.bytes};
    event.what = call.what;
    if (call.kind == Call::Kind::kWrite) {
      event.bytes = static_cast<std::uint64_t>(result);
      event.content.assign(call.content.begin(), call.content.begin() + result);
    } else if (call.kind == Call::Kind::kSync || call.kind == Call::Kind::kSyncDirectory) {
      event.kind = is_directory(file) ? DiskEvent::Kind::kSyncDirectory : DiskEvent::Kind::kSync;
    } else if (call.function == "ftruncate") {
      event.kind = DiskEvent::Kind::kResize;
    } else if (call.function == "fallocate" && call.flags == 0) {
      event.kind = DiskEvent::Kind::kExtend;
    } else if (call.function == "fallocate" && call.flags == FALLOC_FL_INSERT_RANGE) {
      event.kind = DiskEvent::Kind::kInsert;
    } else if (call.function == "fallocate") {
      throw std::logic_error("fallocate with a mode that is not recorded");
    } else {
      return;
    }
    trace_.events.push_back(std::move(event));
  }

  // In each directory at once; of two directories each on its own.
  void change_names(const Call& call, const std::map<std::filesystem::path, std::optional<FileNumber>>& paths) {
    std::map<FileNumber, DiskEvent> events;
    for (const auto& [path, file] : paths) {
      const auto directory = find(path.parent_path());
      if (!directory) throw std::logic_error("a name in a directory that is not recorded: " + path.string());
      auto& event = events.try_emplace(*directory, DiskEvent{DiskEvent::Kind::kNames, *directory}).first->second;
      event.what = call.what;
      event.names[path.filename()] = file;
    }
    for (auto& [directory, event] : events) {
      for (const auto& [name, file] : event.names) {
        entries_[directory].erase(name);
        if (file) entries_[directory][name] = *file;
      }
      trace_.events.push_back(std::move(event));
    }
  }

  std::mutex mutex_;
  const std::string root_;
  FilePool& pool_;
  DiskTrace trace_;
  std::map<ino_t, FileNumber> numbers_;
  std::vector<DirectoryEntries> entries_;  // as they are now, of each file that is a directory
};

}  // namespace

DiskTrace record_disk(const std::string& directory, FilePool& pool, const std::function<void()>& action,
                      const SystemCalls::Hook& hook) {
  Recorder recorder(std::filesystem::canonical(directory), pool);
  {
    const SystemCalls calls(
        [&](const Call& call) {
          recorder.hold_file_of(call);
          Reply reply = hook(call);
          if (reply.is_failure()) recorder.note_failure();
          return reply;
        },
        [&](const Call& call, std::int64_t result) { recorder.record(call, result); });
    action();
  }
  DiskTrace trace = recorder.finish();
  pool.take_back(directory);
  return trace;
}

std::int64_t insert_range(int fd, std::uint64_t offset, std::uint64_t bytes) {
  constexpr std::uint64_t kBlock = 4096;
  struct stat status {};
  if (::fstat(fd, &status) != 0) return -1;
  if (offset % kBlock != 0 || bytes % kBlock != 0) {
    errno = EINVAL;
    return -1;
  }
  Bytes moved(static_cast<std::size_t>(status.st_size) - offset);
  const Bytes zeros(bytes);
  const auto write = [&](const Bytes& content, std::uint64_t at) {
    return ::pwrite(fd, content.data(), content.size(), static_cast<off_t>(at)) == static_cast<ssize_t>(content.size());
  };
  const bool is_read =
      ::pread(fd, moved.data(), moved.size(), static_cast<off_t>(offset)) == static_cast<ssize_t>(moved.size());
  return is_read && write(moved, offset + bytes) && write(zeros, offset) ? 0 : -1;
}

}  // namespace tzmark::test
