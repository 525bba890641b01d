// Files that appear whole or not at all.
#include "os/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "os/name_changes.h"

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

// What has the name that a file will get: a file, or a symbolic link that leads to one.
struct Replaced {
  uid_t owner;  // of the link, if it is one
  bool is_link;
  struct stat target;
};

// Nothing if there is none. A name that cannot be looked up cannot be created either, and that says why.
std::optional<Replaced> find_replaced(const Directory& directory, const std::string& name) {
  struct stat status {};
  if (::fstatat(directory.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  Replaced replaced{status.st_uid, S_ISLNK(status.st_mode), status};
  if (replaced.is_link) {
    refuse_link_to_descriptor(directory, name);
    if (::fstatat(directory.get(), name.c_str(), &replaced.target, 0) != 0) return std::nullopt;
  }
  // A rename would put a regular file in the place of /dev/null.
  if (!S_ISREG(replaced.target.st_mode)) refuse_special();
  return replaced;
}

// Whether the owner of what is replaced may own and open what takes its place. In a directory of others, anybody could
// have put it there to get the new content.
bool may_pass_on(const Directory& directory, const Replaced& replaced) {
  if (replaced.target.st_uid != replaced.owner) return false;
  if (replaced.owner == ::geteuid()) return true;
  struct stat place {};
  if (::geteuid() != 0 || ::fstat(directory.get(), &place) != 0) return false;
  return (place.st_uid == 0 || place.st_uid == replaced.owner) && (place.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

Attributes attributes_of(const Directory& directory, const std::string& name, const Replaced& replaced) {
  const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (replaced.is_link ? 0 : O_NOFOLLOW);
  const Descriptor opened(::openat(directory.get(), name.c_str(), flags));
  struct stat status {};
  const bool is_same = opened.get() >= 0 && ::fstat(opened.get(), &status) == 0 &&
                       status.st_dev == replaced.target.st_dev && status.st_ino == replaced.target.st_ino;
  return is_same ? Attributes::of(opened.get()) : Attributes::without_acl(replaced.target);
}

// Those of the file that is replaced, as they are now. If they are not to be passed on, those of a new file, but as
// private as the file that is replaced.
void give_attributes(const Directory& directory, const std::string& name, const Attributes& of_new_file, int fd) {
  const std::optional<Replaced> replaced = find_replaced(directory, name);
  if (replaced && may_pass_on(directory, *replaced)) {
    attributes_of(directory, name, *replaced).give_to(fd);
    return;
  }
  of_new_file.give_to(fd);
  if (!replaced) return;
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw_errno(ErrorCode::kWriteFailed, "fstat");
  const mode_t mode = status.st_mode & 0777;
  const mode_t narrowed = mode & (0700 | replaced->target.st_mode);
  if (narrowed != mode && ::fchmod(fd, narrowed) != 0) throw_errno(ErrorCode::kWriteFailed, "fchmod");
}

// What the directory and the umask give a new file: asked of an empty one, as a umask cannot be read.
Attributes attributes_of_new_file(const std::shared_ptr<const Directory>& directory, const std::string& final_name) {
  constexpr mode_t kMode = 0666;
  Descriptor opened = directory->create_without_name(kMode);
  if (opened.get() >= 0) return Attributes::of(opened.get());
  const TemporaryName temporary(directory, name_in_directory(temporary_name_for(final_name)));
  const SignalsDeferred until_it_is_open;
  opened = directory->open_file(temporary.name(), O_RDWR | O_CREAT | O_EXCL, kMode);
  if (opened.get() < 0) throw_errno(ErrorCode::kOpenFailed, "cannot create");
  directory->remove_file(temporary.name());
  return Attributes::of(opened.get());
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
  static_cast<void>(find_replaced(*state.directory, state.name));
  state.attributes_of_new_file = attributes_of_new_file(state.directory, final_name);

  // Nobody else may open it until it is known who may: that is asked when it is whole.
  constexpr mode_t mode = S_IRUSR | S_IWUSR;
  state.temporary_file_name = temporary_name_for(final_name);
  state.temporary.emplace(state.directory, name_in_directory(state.temporary_file_name));
  // libcufile looks for the names of its files.
  if (io_path != "gpudirect") state.descriptor = state.directory->create_without_name(mode);
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
  if (!state.linked) {
    const SignalsDeferred until_it_is_linked;
    if (!state.directory->give_name(fd, state.temporary->name())) {
      throw_errno(ErrorCode::kWriteFailed, "cannot give the file a name");
    }
    state.linked = true;
  }
  // After the link: who gives a file away may not link it any more.
  give_attributes(*state.directory, state.name, *state.attributes_of_new_file, fd);
  state.file->sync();
  state.file.reset();
  state.descriptor = Descriptor();
}

void AtomicFile::commit() {
  // The order makes the promise: content first, then the name, then the directory that holds the name.
  finish();
  change_names(state_->directory, [&](NameChanges& changes) { changes.commit(*this); });
}

}  // namespace tzmark
