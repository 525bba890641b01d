// Writing a file without a name, or under a temporary one, and renaming it.
#include "os/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <span>
#include <string_view>

#include "os/name_changes.h"

namespace tzmark {
namespace {

[[noreturn]] void refuse_special() { throw Error(ErrorCode::kOpenFailed, "only a regular file can be replaced"); }

// /dev/stdout looks like a regular file if it was redirected to one, but replacing that name has no effect on it.
void refuse_link_to_descriptor(const Directory& directory, const std::string& name) {
  std::array<char, 4096> target{};
  const ssize_t length = ::readlinkat(directory.get(), name.c_str(), target.data(), target.size());
  if (length > 0 && std::string_view(target.data(), static_cast<std::size_t>(length)).starts_with("/proc/")) {
    throw Error(ErrorCode::kOpenFailed, "this is a link to an open file of a process; for standard output use -");
  }
}

// The file that will be replaced, or the symbolic link to one.
struct Replaced {
  uid_t owner;  // of the link, if it is one
  bool is_link;
  struct stat target;
};

// Returns nothing if there is none, or if its name cannot be looked up: creating the file fails with a better error
// then. Throws if a device fails, as the new file might be open to more users than the old one.
std::optional<Replaced> find_existing(const Directory& directory, const std::string& name) {
  const auto finds = [&](struct stat& status, int flags) {
    if (::fstatat(directory.get(), name.c_str(), &status, flags) == 0) return true;
    refuse_failed_lookup(fmt::format("{}: cannot read its status", directory.path(name)));
    return false;
  };
  struct stat status {};
  if (!finds(status, AT_SYMLINK_NOFOLLOW)) return std::nullopt;
  Replaced replaced{status.st_uid, S_ISLNK(status.st_mode), status};
  if (replaced.is_link && !finds(replaced.target, 0)) return std::nullopt;
  return replaced;
}

std::optional<Replaced> find_replaced(const Directory& directory, const std::string& name) {
  refuse_link_to_descriptor(directory, name);
  const std::optional<Replaced> replaced = find_existing(directory, name);
  // A rename would replace /dev/null by a regular file.
  if (replaced && !S_ISREG(replaced->target.st_mode)) refuse_special();
  return replaced;
}

// Returns whether the owner of the replaced file may own the new one. In a directory that others can write, anyone
// could have put the old file there to get the new content.
bool may_pass_on(const Directory& directory, const Replaced& replaced) {
  if (replaced.target.st_uid != replaced.owner) return false;
  if (replaced.owner == ::geteuid()) return true;
  struct stat place {};
  if (::geteuid() != 0 || ::fstat(directory.get(), &place) != 0) return false;
  return (place.st_uid == 0 || place.st_uid == replaced.owner) && (place.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// Without an ACL if this user may not open the file.
Attributes attributes_of(const Directory& directory, const std::string& name, const Replaced& replaced) {
  const Descriptor opened = directory.open_file(name, O_RDONLY, replaced.is_link ? Links::kFollow : Links::kRefuse);
  if (opened.get() < 0) {
    refuse_failed_lookup(fmt::format("{}: cannot read its access rights", directory.path(name)));
    return Attributes::without_acl(replaced.target);
  }
  const struct stat status = status_of(opened.get());
  const bool is_same = status.st_dev == replaced.target.st_dev && status.st_ino == replaced.target.st_ino;
  return is_same ? Attributes::of(opened.get()) : Attributes::without_acl(replaced.target);
}

// Sets the attributes of the replaced file or, if there is none, of the first file of `like`. If its owner may not own
// the new file, sets those of a new file, with no wider mode than that file has.
void give_attributes(const Directory& directory, std::string name, std::span<const std::string> like,
                     const Attributes& of_new_file, int fd) {
  std::optional<Replaced> replaced = find_replaced(directory, name);
  for (; !replaced && !like.empty(); like = like.subspan(1)) {
    name = like.front();
    replaced = find_existing(directory, name);
    if (replaced && !S_ISREG(replaced->target.st_mode)) replaced.reset();
  }
  if (replaced && may_pass_on(directory, *replaced)) {
    attributes_of(directory, name, *replaced).give_to(fd);
    return;
  }
  of_new_file.give_to(fd);
  if (!replaced) return;
  const mode_t mode = status_of(fd).st_mode & 0777;
  const mode_t narrowed = mode & (0700 | replaced->target.st_mode);
  if (narrowed != mode && ::fchmod(fd, narrowed) != 0) throw_errno(ErrorCode::kWriteFailed, "fchmod");
}

// Returns the attributes of a new file. A umask cannot be read without changing it, so an empty file shows what umask
// and directory give a new one.
Attributes attributes_of_new_file(const std::shared_ptr<const Directory>& directory, const std::string& name) {
  constexpr mode_t kMode = 0666;
  const Descriptor unnamed = directory->create_without_name(kMode);
  if (unnamed.get() >= 0) return Attributes::of(unnamed.get());
  // It is closed before it is removed: FUSE renames an open file instead, which not all of its file systems can.
  const TemporaryName temporary(directory, temporary_name_for(name));
  Attributes attributes = Attributes::of(directory->create(temporary.name(), kMode).get());
  directory->remove_file(temporary.name());
  return attributes;
}

}  // namespace

void require_short_name(const std::string& name) {
  if (name.size() <= NAME_MAX) return;
  throw Error(ErrorCode::kOpenFailed, fmt::format("the name {} is too long: {} bytes, and at most {} are possible",
                                                  name, name.size(), NAME_MAX));
}

std::shared_ptr<const Directory> directory_for(const std::string& final_name, Durability durability) {
  auto directory = std::make_shared<const Directory>(Directory::of(final_name));
  if (durability == Durability::kRequired) directory->require_sync();
  return directory;
}

AtomicFile::AtomicFile(const std::string& final_name, std::string_view io_path, Existing existing,
                       Durability durability)
    : state_(std::make_unique<State>(directory_for(final_name, durability), final_name, io_path, existing)) {}

AtomicFile::AtomicFile(std::unique_ptr<State> state) : state_(std::move(state)) {}

AtomicFile::State::State(std::shared_ptr<const Directory> opened, const std::string& final_name,
                         std::string_view io_path, Existing existing_files, std::vector<std::string> like_files)
    : directory(std::move(opened)),
      name(name_in_directory(final_name)),
      existing(existing_files),
      like(std::move(like_files)) {
  State& state = *this;
  if (state.name.empty()) throw Error(ErrorCode::kOpenFailed, "this is the name of a directory");
  require_short_name(state.name);
  if (existing == Existing::kRefuse && state.directory->has(state.name)) {
    throw Error(ErrorCode::kOpenFailed, "the file exists already");
  }
  static_cast<void>(find_replaced(*state.directory, state.name));
  state.default_attributes = attributes_of_new_file(state.directory, state.name);

  // Only its owner can open it until finish sets the attributes.
  constexpr mode_t mode = S_IRUSR | S_IWUSR;
  state.temporary_file_name = temporary_name_for(final_name);
  state.temporary.emplace(state.directory, name_in_directory(state.temporary_file_name));
  if (!usable_path(io_path).traits.needs_file_name)
    state.descriptor = create_without_name(*state.directory, *state.temporary, mode);
  if (state.descriptor.get() < 0) {
    const SignalsDeferred until_it_is_open;
    state.descriptor = state.directory->create(state.temporary->name(), mode);
    state.linked = true;
  }
  state.file = open_file(duplicate(state.descriptor), state.temporary_file_name, OpenMode::kModify, io_path);
  state.file->expect_sync();
}

void AtomicFile::State::link() {
  if (linked) return;
  const SignalsDeferred until_it_is_linked;
  if (!directory->give_name(descriptor.get(), temporary->name())) {
    throw_errno(ErrorCode::kWriteFailed, "cannot give the file a name");
  }
  linked = true;
}

AtomicFile::~AtomicFile() = default;

File& AtomicFile::file() { return *state_->file; }

void AtomicFile::finish() {
  State& state = *state_;
  if (state.descriptor.get() < 0) return;
  const int fd = state.descriptor.get();
  state.link();
  // After the link: a process may not link a file that it has given away.
  give_attributes(*state.directory, state.name, state.like, *state.default_attributes, fd);
  state.file->sync();
  state.file.reset();
  state.descriptor = Descriptor();
}

bool AtomicFile::commit() {
  // The order matters: content, name, directory.
  finish();
  return change_names(state_->directory, [&](NameChanges& changes) { changes.commit(*this); });
}

}  // namespace tzmark
