// A directory that this program has made, in this process or in another one, and that it removes with all its content.
//
// Removal works on the descriptor that was opened when the directory was made, whatever has its name by now, and
// follows no link. Code of programs, and of no library: it links nothing else of this project, so that the suite, the
// bench and the command share it.
//
// Thread-safety: one object belongs to one thread; remove_content may be called by a signal handler.
// Errors: std::system_error, whose text names the file.
#pragma once

#include <array>
#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>

namespace tzmark {

// What kept a directory from being emptied.
struct RemovalFailure {
  int error_number = 0;                // 0: it is empty
  std::array<char, 256> entry_name{};  // the entry that could not be removed; may be empty
};

// Removes everything in an open directory, however deep. Stays in the mount of the directory, and needs no more
// descriptors or stack for deeper ones. Fails with EBUSY if it takes longer than elapsed_max, as it does while another
// process keeps filling the directory. Uses system calls alone, so that signal handlers may call it.
RemovalFailure remove_content(int directory, std::chrono::nanoseconds elapsed_max) noexcept;

class MadeDirectory {
 public:
  static constexpr std::chrono::nanoseconds kElapsedMax = std::chrono::minutes(1);

  // Makes PARENT/PREFIX and 16 random characters, for this user alone. Throws if what it then opens is not what it has
  // made.
  MadeDirectory(const std::filesystem::path& parent, std::string_view prefix);
  // One that another process of this user has made. Throws if nothing of that kind has this name.
  struct OfAnother {
    std::filesystem::path path;
  };
  MadeDirectory(const OfAnother& directory, std::string_view prefix);
  // Closes the directory, which stays.
  ~MadeDirectory();
  MadeDirectory(const MadeDirectory&) = delete;
  MadeDirectory& operator=(const MadeDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }  // it was made by
  // For signal handlers, which must not allocate memory.
  int get() const { return directory_; }
  int parent() const { return parent_; }
  const std::string& entry() const { return entry_; }

  // Removes everything in it. Throws if that fails.
  void clear(std::chrono::nanoseconds elapsed_max = kElapsedMax) const;
  // Removes it too. Throws if that fails, also if it has another name now: then it is left empty.
  void remove(std::chrono::nanoseconds elapsed_max = kElapsedMax);

 private:
  std::filesystem::path path_;
  std::string entry_;
  int parent_ = -1;
  int directory_ = -1;
};

// Removes an open directory, which is empty, by its name in its parent, unless that belongs to something else now.
// Returns 0 or the number of the error, ESTALE if so. Uses system calls alone.
int remove_empty(int parent, const char* entry, int directory) noexcept;

}  // namespace tzmark
