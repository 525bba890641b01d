// Files that appear whole or not at all.
#include "io/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "io/name_changes.h"

namespace tzmark {
namespace {

[[noreturn]] void refuse_special() { throw Error(ErrorCode::kOpenFailed, "only a regular file can be replaced"); }

// What /dev/stdout leads to looks like a regular file if it was redirected to one, but is no place of its own.
void refuse_link_to_descriptor(const Directory& directory, const std::string& name) {
  std::array<char, 4096> target{};
  const ssize_t length = ::readlinkat(directory.get(), name.c_str(), target.data(), target.size());
  if (length > 0 && std::string_view(target.data(), static_cast<std::size_t>(length)).starts_with("/proc/")) {
    throw Error(ErrorCode::kOpenFailed, "this leads to an open file of a process; - is standard output");
  }
}

// What is to be kept of a file that will be replaced; nothing if there is none. A symbolic link is replaced itself, and
// what it leads to stays, but is asked for its attributes.
std::optional<Attributes> attributes_of_existing(const Directory& directory, const std::string& name) {
  struct stat status {};
  // A name that cannot be looked up cannot be created either, and that says why.
  if (::fstatat(directory.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  if (S_ISLNK(status.st_mode)) {
    refuse_link_to_descriptor(directory, name);
    if (::fstatat(directory.get(), name.c_str(), &status, 0) != 0) return std::nullopt;
  }
  // A rename would put a regular file in the place of /dev/null.
  if (!S_ISREG(status.st_mode)) refuse_special();
  const Descriptor opened(::openat(directory.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (opened.get() < 0) return Attributes::without_acl(status);
  if (::fstat(opened.get(), &status) != 0) throw_errno(ErrorCode::kOpenFailed, "fstat");
  if (!S_ISREG(status.st_mode)) refuse_special();
  return Attributes::of(opened.get());
}

std::string path_of_descriptor(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

// A file without a name, which no kill leaves behind. Empty where there is none, or where it could not get a name
// later. libcufile looks for the names of its files.
Descriptor open_without_name(const Directory& directory, mode_t mode, std::string_view io_path) {
  if (io_path == "gpudirect") return Descriptor();
  Descriptor opened(::openat(directory.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode));
  struct stat status {};
  if (opened.get() >= 0 && ::lstat(path_of_descriptor(opened.get()).c_str(), &status) != 0) return Descriptor();
  return opened;
}

}  // namespace

AtomicFile::AtomicFile(const std::string& final_name, std::string_view io_path, Existing existing)
    : AtomicFile(std::make_shared<const Directory>(Directory::of(final_name)), final_name, io_path, existing) {}

AtomicFile::AtomicFile(std::shared_ptr<const Directory> directory, const std::string& final_name,
                       std::string_view io_path, Existing existing)
    : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.directory = std::move(directory);
  state.name = name_in_directory(final_name);
  state.existing = existing;
  if (state.name.empty()) throw Error(ErrorCode::kOpenFailed, "this is the name of a directory");
  if (existing == Existing::kRefuse && state.directory->has(state.name)) {
    throw Error(ErrorCode::kOpenFailed, "the file exists already");
  }
  state.attributes = attributes_of_existing(*state.directory, state.name);

  // Nobody may open it now who may not read the file that it replaces.
  const mode_t mode = state.attributes ? 0600 : 0666;
  state.temporary_file_name = temporary_name_for(final_name);
  state.temporary.emplace(state.directory, name_in_directory(state.temporary_file_name));
  state.descriptor = open_without_name(*state.directory, mode, io_path);
  if (state.descriptor.get() < 0) {
    const SignalsDeferred until_it_is_open;
    state.descriptor = state.directory->open_file(state.temporary->name(), O_RDWR | O_CREAT | O_EXCL, mode);
    if (state.descriptor.get() < 0) throw_errno(ErrorCode::kOpenFailed, "cannot create");
    state.linked = true;
  }
  Descriptor own(::fcntl(state.descriptor.get(), F_DUPFD_CLOEXEC, 0));
  if (own.get() < 0) throw_errno(ErrorCode::kOpenFailed, "cannot create");
  state.file = open_file(std::move(own), state.temporary_file_name, OpenMode::kModify, io_path);
}

AtomicFile::~AtomicFile() = default;

File& AtomicFile::file() { return *state_->file; }

void AtomicFile::finish() {
  State& state = *state_;
  if (state.descriptor.get() < 0) return;
  const int fd = state.descriptor.get();
  if (state.attributes) state.attributes->give_to(fd);
  state.file->sync();
  state.file.reset();
  if (!state.linked && ::linkat(AT_FDCWD, path_of_descriptor(fd).c_str(), state.directory->get(),
                                state.temporary->name().c_str(), AT_SYMLINK_FOLLOW) != 0) {
    throw_errno(ErrorCode::kWriteFailed, "cannot give the file a name");
  }
  state.linked = true;
  state.descriptor = Descriptor();
}

void AtomicFile::commit() {
  // The order makes the promise: content first, then the name, then the directory that holds the name.
  finish();
  change_names(state_->directory, [&](NameChanges& changes) { changes.commit(*this); });
}

}  // namespace tzmark
