// Locking the file of the writer, and naming the process that has locked it.
#include "checkpoint/claim.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "bytes/utf8.h"
#include "checkpoint/json.h"
#include "checkpoint/names.h"
#include "io/paths.h"
#include "os/attributes.h"
#include "tzmark/checkpoint.h"
#include "tzmark/error.h"

namespace tzmark::checkpoint {
namespace {

// Two processes that start at once take turns until one of them has the file.
constexpr int kTriesMax = 100;
constexpr std::chrono::milliseconds kPause{1};
constexpr mode_t kMode = 0600;

const std::string kName(kWriterName);

// Tells this process from another one with its pid in another container, and from those that it forks.
std::string process_id() {
  static const std::string id = new_save_id();
  return fmt::format("{}-{}", id, ::getpid());
}

// Opens the file once more, so that a process that is forked meanwhile gets no descriptor with the lock.
void write_process(const Directory& parent, const Descriptor& file) {
  const WriterProcess process = this_process();
  const std::string text = serialize({{"host", process.host}, {"pid", process.pid}, {"process", process_id()}});
  const std::string name = parent.path(kName);
  with_context(name, [&] {
    Descriptor again = parent.open_file(kName, O_RDWR);
    if (again.get() < 0) throw_errno(ErrorCode::kOpenFailed, "cannot open");
    if (!is_same_file(again.get(), file.get())) throw Error(ErrorCode::kFileLocked, "another process has replaced it");
    open_file(std::move(again), name, OpenMode::kCreate, "pwrite")->write_at(0, std::as_bytes(std::span(text)));
  });
}

struct Holder {
  WriterProcess process;
  std::string id;
};

// Returns nothing if the file is being written, or is none of ours.
std::optional<Holder> read_holder(const Directory& parent) {
  constexpr std::uint64_t kBytesMax = 4096;
  try {
    const std::string text = read_small_file(parent, kName, kBytesMax);
    return with_json(text, ErrorCode::kFileLocked, [](const Json& json) {
      constexpr ErrorCode kCode = ErrorCode::kFileLocked;
      return Holder{{printable(string_member(json, "host", kCode)), unsigned_member<std::uint64_t>(json, "pid", kCode)},
                    string_member(json, "process", kCode)};
    });
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Opens the file if it is one that processes of this user lock. Otherwise says who holds it, or why it cannot be known.
struct Found {
  Descriptor file;    // empty if there is none, or another user's
  std::string other;  // a user's process
};
Found open_claim(const Directory& parent, int flags) {
  Descriptor file = parent.open_file(kName, flags);
  if (file.get() < 0 && errno == ENOENT) return {Descriptor(), {}};
  if (file.get() < 0 && errno == EACCES) {
    return {Descriptor(), fmt::format("another user's process, unless it died and left {}", parent.path(kName))};
  }
  if (file.get() < 0) throw_errno(ErrorCode::kOpenFailed, fmt::format("{}: cannot open", parent.path(kName)));
  if (!S_ISREG(status_of(file.get()).st_mode)) {
    throw Error(ErrorCode::kOpenFailed, fmt::format("{}: not a regular file: delete it", parent.path(kName)));
  }
  return {std::move(file), {}};
}

// Returns an empty lock if another process holds it.
FileLock lock_claim(const Directory& parent, const Descriptor& file, Lock lock) {
  FileLock locked(file.get(), lock);
  if (!locked.is_held() && errno != EWOULDBLOCK) {
    throw_errno(ErrorCode::kUnavailable, fmt::format("{}: cannot lock it", parent.path(kName)));
  }
  return locked;
}

std::string nameless(const Directory& parent) {
  return fmt::format("a process that does not name itself in {}", parent.path(kName));
}

std::string why_unknown(const Error& error) {
  return fmt::format("cannot find out whether another process saves there: {}", error.message());
}

}  // namespace

WriterProcess this_process() {
  std::array<char, 256> name{};
  // A name that is cut off still identifies the machine to people.
  static_cast<void>(::gethostname(name.data(), name.size() - 1));
  return {printable(name.data()), static_cast<std::uint64_t>(::getpid())};
}

std::string describe(const WriterProcess& process) {
  return fmt::format("process {} on {}", process.pid, process.host);
}

Claims::Claims(bool exclusive) : exclusive_(exclusive) {}

// Creates and locks the file. Returns false if another process was faster.
bool Claims::create(Claim& claim) const {
  const Directory& parent = claim.parent;
  Descriptor file;
  try {
    file = parent.create(kName, kMode);
  } catch (const Error&) {
    if (parent.has(kName)) return false;
    throw;
  }
  // Until it is locked, another process may take it for one that was left, and remove it.
  FileLock lock = lock_claim(parent, file, Lock::kAlone);
  if (!lock.is_held() || !parent.is_name_of(kName, file.get())) return false;
  try {
    write_process(parent, file);
  } catch (...) {
    if (parent.is_name_of(kName, file.get())) parent.remove_file(kName);
    throw;
  }
  claim.file = std::move(file);
  claim.lock = std::move(lock);
  return true;
}

// Returns who else holds the claim; empty if it is held now, or by this process and need not be exclusive.
std::string Claims::try_hold(Claim& claim) const {
  const Directory& parent = claim.parent;
  bool is_seen = false;
  for (int tries = 0; tries < kTriesMax; ++tries) {
    if (tries > 0) std::this_thread::sleep_for(kPause);
    const Found found = open_claim(parent, O_RDWR);
    if (!found.other.empty()) return found.other;
    if (found.file.get() < 0) {
      if (create(claim)) return {};
      continue;
    }
    const FileLock lock = lock_claim(parent, found.file, Lock::kAlone);
    if (lock.is_held()) {
      // Its process has died.
      if (parent.is_name_of(kName, found.file.get())) parent.remove_file(kName);
      continue;
    }
    // It may be locked for a moment by a process that looks, as other_writer does.
    if (!std::exchange(is_seen, true)) continue;
    if (const auto holder = read_holder(parent)) {
      if (holder->id != process_id()) return describe(holder->process);
      return exclusive_ ? "another checkpointer of this process" : "";
    }
  }
  return nameless(parent);
}

std::string Claims::hold(const std::string& parent_name) {
  Directory opened(parent_name);
  auto claim =
      std::ranges::find_if(claims_, [&](const Claim& one) { return opened.is_name_of(".", one.parent.get()); });
  if (claim == claims_.end())
    claim = claims_.insert(claims_.end(), Claim{std::move(opened), Descriptor(), FileLock(), {}});
  std::string sentence;
  try {
    if (claim->file.get() >= 0 && claim->parent.is_name_of(kName, claim->file.get())) return {};
    // Somebody has deleted the file, or a fork has left it to the parent.
    claim->lock = FileLock();
    claim->file = Descriptor();
    const std::string other = try_hold(*claim);
    if (other.empty()) return {};
    sentence = fmt::format("{}: {} saves there too", parent_name, other);
    if (exclusive_) throw Error(ErrorCode::kFileLocked, sentence + ": end it, or save to another directory");
  } catch (const Error& error) {
    if (exclusive_) throw;
    sentence = why_unknown(error);
  }
  if (claim->told == sentence) return {};
  return claim->told = sentence;
}

void Claims::release() noexcept {
  for (const Claim& claim : claims_) {
    try {
      if (claim.file.get() >= 0 && claim.parent.is_name_of(kName, claim.file.get())) claim.parent.remove_file(kName);
    } catch (...) {
      // The next writer takes a file without a lock.
    }
  }
  claims_.clear();
}

}  // namespace tzmark::checkpoint

namespace tzmark {

std::string other_writer(const std::string& parent_name) {
  using namespace checkpoint;
  const Directory parent(parent_name);
  try {
    Found found = open_claim(parent, O_RDONLY);
    if (found.other.empty()) {
      if (found.file.get() < 0 || lock_claim(parent, found.file, Lock::kShared).is_held()) return {};
      const auto holder = read_holder(parent);
      if (holder && holder->id == process_id()) return {};
      found.other = holder ? describe(holder->process) : nameless(parent);
    }
    return fmt::format("{} saves there", found.other);
  } catch (const Error& error) {
    return why_unknown(error);
  }
}

}  // namespace tzmark
