// Recovery from an undo journal: whether it counts, whether the file is the one that it was written for, and what it
// says to do.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <vector>

#include "bytes/cursor.h"
#include "bytes/pieces.h"
#include "codec/undo_journal.h"
#include "os/attributes.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

constexpr std::size_t kRecoveryPieceBytes = 1 << 20;
constexpr std::uint64_t kRangesMax = 16;
constexpr const char* kWithoutIt = "move it away and verify the file; if that is well, delete it";
constexpr const char* kRestored =
    "if file and journal were copied or restored together, run tzmark edit --recover --restored; else "
    "move it away and verify the file; if that is well, delete it";

// A range, and where its bytes are in the journal.
struct SavedRange : ByteRange {
  std::uint64_t bytes_at;
};

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorCode::kEditInterrupted, why); }
[[noreturn]] void refuse_damaged() {
  refuse(fmt::format(
      "the undo journal is damaged, or not from tzmark; if the machine lost power before the journal was on "
      "disk, the file was not touched: {}",
      kWithoutIt));
}
[[noreturn]] void refuse_untrusted(const std::string& name, const std::string& why) {
  refuse(fmt::format("{} is not trusted as an undo journal: {}; {}", name, why, kWithoutIt));
}
[[noreturn]] void refuse_other_file(const char* difference) {
  refuse(fmt::format("the undo journal is of another file that had this name ({}): {}", difference, kWithoutIt));
}

[[noreturn]] void refuse_other_identity(const char* difference) {
  refuse(fmt::format("the undo journal was not written for this file ({}): {}", difference, kRestored));
}

// Whether every user has a number here. In a user namespace of a container, all others seem to be one user.
bool has_all_users() {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> map(std::fopen("/proc/self/uid_map", "re"), std::fclose);
  unsigned inside = 1, outside = 1, count = 0;
  return map && std::fscanf(map.get(), "%u %u %u", &inside, &outside, &count) == 3 && inside == 0 && outside == 0 &&
         count == 0xFFFFFFFFU;
}

bool is_owner_trusted(uid_t owner, uid_t file_owner) {
  constexpr uid_t kNobody = 65534;
  if (owner == ::geteuid()) return true;
  return owner == file_owner && (owner != kNobody || has_all_users());
}

// Whether more users than the owner may write to the journal, and some of them not to the file. Some file systems give
// all files the same mode, or all of one directory.
bool may_others_write(int fd, const struct stat& status, const InPlaceFile& locked) {
  const mode_t others = status.st_mode & (S_IWGRP | S_IWOTH);
  if (others == 0) return false;
  const struct stat file = status_of(locked.get());
  return (others & ~file.st_mode) != 0 || status.st_gid != file.st_gid || has_acl(fd) || has_acl(locked.get());
}

// Throws unless only those may have written the journal who may write to the file anyway.
void require_trusted(int fd, const std::string& name, const InPlaceFile& locked, RecoverOptions options) {
  const struct stat status = status_of(fd);
  if (!S_ISREG(status.st_mode)) refuse_untrusted(name, "it is not a regular file");
  if (status.st_nlink != 1 && !options.restored) {
    refuse(fmt::format("{} is not trusted as an undo journal: it has other names (hard links); {}", name, kRestored));
  }
  if (!is_owner_trusted(status.st_uid, locked.owner())) {
    refuse_untrusted(name, fmt::format("it belongs to user {}, who may have to run tzmark edit --recover, and not to "
                                       "the file's owner or to you",
                                       status.st_uid));
  }
  if (may_others_write(fd, status, locked)) {
    refuse_untrusted(
        name, fmt::format("users may write to it who may not write to the file (mode {:o})", status.st_mode & 07777U));
  }
}

// The journal of a locked file; nothing if there is none.
Descriptor open_trusted(const InPlaceFile& locked, RecoverOptions options) {
  const std::string name = undo_journal_name(locked);
  Descriptor descriptor = locked.directory().open_file(name, O_RDONLY);
  if (descriptor.get() >= 0) {
    require_trusted(descriptor.get(), name, locked, options);
  } else if (errno == ELOOP) {
    refuse_untrusted(name, "it is a symbolic link");
  } else if (errno == ENXIO) {
    refuse_untrusted(name, "it is not a regular file");
  } else if (errno != ENOENT && errno != ENAMETOOLONG) {
    throw_errno(ErrorCode::kOpenFailed, fmt::format("{}: cannot open", name));
  }
  return descriptor;
}

// Reads the header of a journal, and verifies the digest of all of it. Journals get their name when they are whole, so
// a shorter file is refused.
UndoJournalHeaderWire read_journal_header(File& journal) {
  UndoJournalHeaderWire header{};
  const auto raw = std::as_writable_bytes(std::span(&header, 1));
  journal.read_at(0, raw.first(static_cast<std::size_t>(std::min<std::uint64_t>(raw.size(), journal.size()))));
  if (journal.size() < offsetof(UndoJournalHeaderWire, kind)) refuse_damaged();
  if (!std::ranges::equal(header.magic, kUndoJournalMagic)) refuse_damaged();
  if (header.version != kUndoJournalVersion) {
    refuse(
        fmt::format("the undo journal has version {}, and this tzmark obeys version {} only: recover with the tzmark "
                    "that wrote it, or {}",
                    std::uint32_t{header.version}, kUndoJournalVersion, kWithoutIt));
  }
  if (journal.size() < sizeof header + sizeof(Sha256Digest) || header.journal_bytes != journal.size() ||
      header.crc32 != crc32_of(header)) {
    refuse_damaged();
  }
  Sha256 digest;
  const std::uint64_t hashed = header.journal_bytes - sizeof(Sha256Digest);
  for_each_piece(hashed, kRecoveryPieceBytes, [&](std::uint64_t at, std::span<std::byte> piece) {
    journal.read_at(at, piece);
    digest.update(piece);
  });
  Sha256Digest stored;
  journal.read_at(hashed, std::span<std::byte>(stored));
  if (stored != digest.finish()) refuse_damaged();
  return header;
}

// The ranges, all of them inside the journal and inside the file.
std::vector<SavedRange> ranges_of(File& journal, const UndoJournalHeaderWire& header) {
  if (header.range_count > kRangesMax) refuse_damaged();
  const std::uint64_t end = header.journal_bytes - sizeof(Sha256Digest);
  std::vector<SavedRange> ranges;
  std::uint64_t at = sizeof header;
  for (std::uint64_t i = 0; i < header.range_count; ++i) {
    if (end - at < sizeof(ByteRange)) refuse_damaged();
    std::array<std::byte, sizeof(ByteRange)> raw;
    journal.read_at(at, std::span<std::byte>(raw));
    at += sizeof(ByteRange);
    const ByteRange range{load<std::uint64_t>(raw, 0), load<std::uint64_t>(raw, sizeof(std::uint64_t))};
    const bool fits = range.length <= end - at && range.length <= header.file_bytes &&
                      range.offset <= header.file_bytes - range.length;
    if (!fits) refuse_damaged();
    ranges.push_back({range, at});
    at += range.length;
  }
  if (at != end) refuse_damaged();
  return ranges;
}

// Sizes that no change of ours has. What is inserted begins behind the end at most where that is a short file's.
void require_plausible(const UndoJournalHeaderWire& header, std::size_t range_count) {
  const auto kind = static_cast<UndoJournalKind>(header.kind);
  const std::uint64_t end = std::max(std::uint64_t{header.file_bytes}, std::uint64_t{header.insert_at});
  const bool plausible = kind == UndoJournalKind::kOverwrite
                             ? header.insert_bytes == 0 && header.insert_at == header.file_bytes &&
                                   header.file_bytes_max >= header.file_bytes
                             : kind == UndoJournalKind::kInsert && range_count == 3 && header.insert_bytes > 0 &&
                                   header.file_bytes_max >= end && header.file_bytes_max - end == header.insert_bytes;
  if (!plausible) refuse_damaged();
}

void require_same_file(const UndoJournalHeaderWire& header, const InPlaceFile& locked) {
  const FileIdentity found = locked.identity();
  const FileIdentity wanted{header.file_number, header.created_s, header.created_ns};
  if (wanted.number != found.number) refuse_other_identity("its inode differs");
  const bool created_then = wanted.created_s == found.created_s && wanted.created_ns == found.created_ns;
  // A kernel may know less of a file than the one that ran before.
  if (wanted.has_creation_time() && found.has_creation_time() && !created_then) {
    refuse_other_identity("it was created at another time");
  }
}

bool is_unchanged(File& file, const UndoJournalHeaderWire& header, std::span<const SavedRange> changed,
                  std::uint64_t moved_bytes) {
  const std::vector<ByteRange> ranges(changed.begin(), changed.end());
  return std::ranges::equal(digest_of_unchanged(file, header, ranges, moved_bytes), header.unchanged);
}

void undo_overwrite(File& journal, const UndoJournalHeaderWire& header, std::span<const SavedRange> ranges, File& file,
                    InPlaceFile& locked) {
  if (locked.size() < header.file_bytes || locked.size() > header.file_bytes_max) {
    refuse_other_file("it has another size");
  }
  if (!is_unchanged(file, header, ranges, 0)) refuse_other_file("it has other bytes where the edit changes none");
  for (const SavedRange& range : ranges) copy_bytes(journal, range.bytes_at, file, range.offset, range.length);
  locked.resize(header.file_bytes);
  file.sync();
}

// Whether the bytes of a probe are at a position of the file.
bool is_at(File& journal, const SavedRange& probe, File& file, std::uint64_t offset) {
  std::array<std::byte, kProbeBytesMax> saved, found;
  if (probe.length > kProbeBytesMax) refuse_damaged();
  const auto bytes = static_cast<std::size_t>(probe.length);
  journal.read_at(probe.bytes_at, std::span(saved).first(bytes));
  file.read_at(offset, std::span(found).first(bytes));
  return std::equal(saved.begin(), saved.begin() + bytes, found.begin());
}

// What lies behind insert_at is moved from its end on backwards, and leaves zeros. So if the first bytes that are not
// zeros have moved, all have; and if the last ones have not, none have.
Recovery end_insert(File& journal, const UndoJournalHeaderWire& header, std::span<const SavedRange> ranges, File& file,
                    InPlaceFile& locked) {
  const SavedRange& section = ranges[0];
  const SavedRange& first = ranges[1];
  const SavedRange& last = ranges[2];
  const auto changed = ranges.first(1);
  if (locked.size() == header.file_bytes) {
    if (!is_unchanged(file, header, changed, 0)) refuse_other_file("it has other bytes where the edit changes none");
    return Recovery::kUndone;
  }
  if (locked.size() != header.file_bytes_max) refuse_other_file("it has another size");
  const std::uint64_t moved = header.insert_bytes;
  const bool none_moved = last.length > 0 && is_at(journal, first, file, first.offset) &&
                          is_at(journal, last, file, last.offset) && !is_at(journal, last, file, last.offset + moved);
  if (none_moved && is_unchanged(file, header, changed, 0)) {
    // The file system has made the file larger, and then found no room to move anything.
    locked.resize(header.file_bytes);
    file.sync();
    return Recovery::kUndone;
  }
  const bool all_moved = first.length == 0 || (!is_at(journal, first, file, first.offset) &&
                                               is_at(journal, first, file, first.offset + moved));
  if (!all_moved || !is_unchanged(file, header, changed, moved)) {
    refuse(
        "the file has grown, and its data has not moved as a whole: the file system has made a part of the change "
        "only, or another process has changed the file; restore it from a copy");
  }
  copy_bytes(journal, section.bytes_at, file, section.offset, section.length);
  file.sync();
  return Recovery::kFinished;
}

}  // namespace

Recovery recover_locked(InPlaceFile& locked, RecoverOptions options) {
  Descriptor descriptor = open_trusted(locked, options);
  if (descriptor.get() < 0) return Recovery::kNothing;
  const std::string name = undo_journal_name(locked);
  const auto journal = open_file(std::move(descriptor), name, OpenMode::kRead);
  const UndoJournalHeaderWire header = with_context(name, [&] { return read_journal_header(*journal); });
  const std::vector<SavedRange> ranges = ranges_of(*journal, header);
  require_plausible(header, ranges.size());
  if (!options.restored) require_same_file(header, locked);
  const auto file = locked.open();
  Recovery result = Recovery::kUndone;
  if (static_cast<UndoJournalKind>(header.kind) == UndoJournalKind::kOverwrite) {
    undo_overwrite(*journal, header, ranges, *file, locked);
  } else {
    result = end_insert(*journal, header, ranges, *file, locked);
  }
  // If the journal comes back after a loss of power, the same recovery changes nothing.
  static_cast<void>(remove_undo_journal(locked));
  return result;
}

}  // namespace tzmark
