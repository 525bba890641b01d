// Writing undo journals, and their names.
#include "codec/undo_journal.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <system_error>

#include "bytes/pieces.h"
#include "io/paths.h"
#include "os/attributes.h"
#include "os/temporary_name.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

constexpr std::string_view kSuffix = ".tzmark-intent";
constexpr std::size_t kJournalPieceBytes = 1 << 20;

// Writes the parts of an undo journal one after another, and hashes them. The journal gets its name when it is whole
// and synced, so that a machine that loses power leaves none that is cut or holds zeros.
class UndoJournalWriter {
 public:
  explicit UndoJournalWriter(const InPlaceFile& locked)
      : locked_(locked),
        directory_(locked.directory()),
        name_(undo_journal_name(locked)),
        descriptor_(directory_.create_without_name(kPrivate)) {
    if (descriptor_.get() < 0) create_temporary();
    file_ = open_file(duplicate(descriptor_), name_, OpenMode::kModify);
  }

  void bytes(std::span<const std::byte> bytes) {
    file_->write_at(position_, bytes);
    digest_.update(bytes);
    position_ += bytes.size();
  }
  template <typename T>
  void structure(const T& value) {
    bytes(std::as_bytes(std::span(&value, 1)));
  }
  // Returns whether the name is durable.
  [[nodiscard]] bool finish() {
    const Sha256Digest digest = digest_.finish();
    file_->write_at(position_, std::span<const std::byte>(digest));
    file_->sync();
    const bool is_named = !temporary_ && directory_.give_name(descriptor_.get(), name_);
    if (!is_named && !temporary_) {
      if (!is_link_unsupported(errno)) throw_errno(ErrorCode::kWriteFailed, fmt::format("{}: cannot create", name_));
      copy_to_temporary();
    }
    if (!is_named) {
      directory_.rename_file_no_replace(temporary_->name(), name_);
      temporary_->release();
    }
    // After the name, as a process may not link a file that it has given away. Only its owner may write to it; if that
    // is not the file's owner, recovery is up to the user who began the change.
    locked_.give_attributes_to(descriptor_.get(), 0755);
    return directory_.sync();
  }

 private:
  static constexpr mode_t kPrivate = 0600;

  void create_temporary() {
    temporary_.emplace(locked_.shared_directory(), temporary_name_for(temporary_journal_stem(locked_.name())));
    descriptor_ = directory_.create(temporary_->name(), kPrivate);
  }
  // Where files without a name exist and a security policy forbids to link them.
  void copy_to_temporary() {
    const auto unnamed = std::move(file_);
    create_temporary();
    file_ = open_file(duplicate(descriptor_), name_, OpenMode::kModify);
    copy_bytes(*unnamed, 0, *file_, 0, unnamed->size());
    file_->sync();
  }

  const InPlaceFile& locked_;
  const Directory& directory_;
  const std::string name_;
  std::optional<TemporaryName> temporary_;  // where a file cannot be without a name
  Descriptor descriptor_;
  std::unique_ptr<File> file_;
  Sha256 digest_;
  std::uint64_t position_ = 0;
};

UndoJournalHeaderWire header_of(UndoJournalKind kind, const InPlaceFile& locked, std::span<const ByteRange> ranges) {
  const FileIdentity identity = locked.identity();
  UndoJournalHeaderWire header{};
  std::ranges::copy(kUndoJournalMagic, header.magic);
  header.version = kUndoJournalVersion;
  header.kind = static_cast<std::uint32_t>(kind);
  header.file_number = identity.number;
  header.created_s = identity.created_s;
  header.created_ns = identity.created_ns;
  header.file_bytes = locked.size();
  header.insert_at = header.file_bytes;
  header.range_count = ranges.size();
  header.journal_bytes = sizeof header + sizeof(Sha256Digest);
  for (const ByteRange& range : ranges) header.journal_bytes += sizeof(ByteRange) + range.length;
  return header;
}

// What counts is known only when the rest of the header is.
void finish_header(UndoJournalHeaderWire& header, File& file, std::span<const ByteRange> changed) {
  std::ranges::copy(digest_of_unchanged(file, header, changed, 0), header.unchanged);
  header.crc32 = crc32_of(header);
}

bool is_not_zero(std::byte b) { return b != std::byte{0}; }

// The first bytes behind a position that are not all zeros; an empty range if all are.
ByteRange first_probe(File& file, std::uint64_t at) {
  std::vector<std::byte> piece(kJournalPieceBytes);
  while (at < file.size()) {
    const auto part =
        std::span(piece).first(static_cast<std::size_t>(std::min<std::uint64_t>(kJournalPieceBytes, file.size() - at)));
    file.read_at(at, part);
    const auto found = std::ranges::find_if(part, is_not_zero);
    at += static_cast<std::uint64_t>(found - part.begin());
    if (found != part.end()) return {at, std::min(kProbeBytesMax, file.size() - at)};
  }
  return {0, 0};
}

// The last ones.
ByteRange last_probe(File& file, std::uint64_t at) {
  std::vector<std::byte> piece(kJournalPieceBytes);
  for (std::uint64_t end = file.size(); end > at;) {
    const auto part =
        std::span(piece).first(static_cast<std::size_t>(std::min<std::uint64_t>(kJournalPieceBytes, end - at)));
    file.read_at(end - part.size(), part);
    const auto found = std::find_if(part.rbegin(), part.rend(), is_not_zero);
    end -= static_cast<std::uint64_t>(found - part.rbegin());
    const std::uint64_t length = std::min(kProbeBytesMax, end - at);
    if (found != part.rend()) return {end - length, length};
  }
  return {0, 0};
}

// Reads old bytes of a file whose bytes behind insert_at have moved.
void read_moved(File& file, const UndoJournalHeaderWire& header, std::uint64_t moved_bytes, std::uint64_t at,
                std::span<std::byte> out) {
  const std::uint64_t in_front = at < header.insert_at ? header.insert_at - at : 0;
  const auto first = static_cast<std::size_t>(std::min<std::uint64_t>(in_front, out.size()));
  if (first > 0) file.read_at(at, out.first(first));
  if (first < out.size()) file.read_at(at + first + moved_bytes, out.subspan(first));
}

}  // namespace

std::uint32_t crc32_of(const UndoJournalHeaderWire& header) {
  return crc32(0, std::as_bytes(std::span(&header, 1)).first(offsetof(UndoJournalHeaderWire, crc32)));
}

Sha256Digest digest_of_unchanged(File& file, const UndoJournalHeaderWire& header, std::span<const ByteRange> changed,
                                 std::uint64_t moved_bytes) {
  constexpr std::uint64_t kBlocks = 64, kBlockBytes = 4096;
  const std::uint64_t step = std::max(kBlockBytes, header.file_bytes / kBlocks);
  std::array<std::byte, kBlockBytes> block;
  Sha256 digest;
  for (std::uint64_t at = 0; at < header.file_bytes; at += step) {
    const std::uint64_t end = at + std::min(kBlockBytes, header.file_bytes - at);
    const auto part = std::span(block).first(static_cast<std::size_t>(end - at));
    read_moved(file, header, moved_bytes, at, part);
    for (const ByteRange& range : changed) {
      const std::uint64_t from = std::max(at, range.offset), to = std::min(end, range.offset + range.length);
      if (from < to) std::ranges::fill(part.subspan(from - at, to - from), std::byte{0});
    }
    digest.update(part);
  }
  return digest.finish();
}

std::string undo_journal_name(const InPlaceFile& locked) { return locked.name() + std::string(kSuffix); }

std::string temporary_journal_stem(const std::string& name) {
  return (name + std::string(kSuffix)).substr(0, NAME_MAX - std::string_view(".tmp-XXXXXXXX").size());
}

std::string undo_journal_file_name(const std::string& file_name) {
  return resolved_file_name(file_name) + std::string(kSuffix);
}

bool write_overwrite_journal(const InPlaceFile& locked, File& file, std::vector<ByteRange> ranges,
                             std::uint64_t file_bytes_max) {
  for (ByteRange& range : ranges) {
    range.length = range.offset >= file.size() ? 0 : std::min(range.length, file.size() - range.offset);
    if (range.length == 0) range.offset = 0;
  }
  UndoJournalHeaderWire header = header_of(UndoJournalKind::kOverwrite, locked, ranges);
  header.file_bytes_max = std::max(file_bytes_max, std::uint64_t{header.file_bytes});
  finish_header(header, file, ranges);
  UndoJournalWriter journal(locked);
  journal.structure(header);
  for (const ByteRange& range : ranges) {
    journal.structure(range);
    for_each_piece(range.length, kJournalPieceBytes, [&](std::uint64_t done, std::span<std::byte> piece) {
      file.read_at(range.offset + done, piece);
      journal.bytes(piece);
    });
  }
  return journal.finish();
}

bool write_insert_journal(const InPlaceFile& locked, File& file, std::uint64_t at, std::uint64_t insert_bytes,
                          std::uint64_t offset, std::span<const std::byte> bytes) {
  const std::array ranges = {ByteRange{offset, bytes.size()}, first_probe(file, at), last_probe(file, at)};
  UndoJournalHeaderWire header = header_of(UndoJournalKind::kInsert, locked, ranges);
  header.insert_at = at;
  header.insert_bytes = insert_bytes;
  header.file_bytes_max = std::max(std::uint64_t{header.file_bytes}, at) + insert_bytes;
  finish_header(header, file, std::span(ranges).first(1));
  UndoJournalWriter journal(locked);
  journal.structure(header);
  journal.structure(ranges[0]);
  journal.bytes(bytes);
  for (const ByteRange& probe : std::span(ranges).subspan(1)) {
    std::array<std::byte, kProbeBytesMax> room;
    const auto found = std::span(room).first(static_cast<std::size_t>(probe.length));
    file.read_at(probe.offset, found);
    journal.structure(probe);
    journal.bytes(found);
  }
  return journal.finish();
}

bool has_undo_journal(const std::string& file_name) {
  struct stat status {};
  if (::lstat(undo_journal_file_name(file_name).c_str(), &status) == 0) return true;
  // A file that is half edited must not be read because a device failed. A name that is too long to be looked up
  // belongs to no file.
  refuse_failed_lookup("cannot find out whether an in-place edit was interrupted");
  return false;
}

void require_no_undo_journal(const std::string& file_name) {
  if (is_url(file_name)) return;
  if (!has_undo_journal(file_name)) return;
  std::error_code failed;
  if (std::filesystem::exists(file_name, failed) || failed) {
    throw Error(ErrorCode::kEditInterrupted,
                fmt::format("an in-place edit is under way or was interrupted, as {} shows: run tzmark edit --recover",
                            undo_journal_file_name(file_name)));
  }
  throw Error(
      ErrorCode::kEditInterrupted,
      fmt::format("{} is left of an interrupted edit, and its file is gone: delete it, or put the file back and "
                  "run tzmark edit --recover",
                  undo_journal_file_name(file_name)));
}

bool remove_undo_journal(const InPlaceFile& locked) {
  if (!locked.directory().remove_file(undo_journal_name(locked))) {
    throw Error(ErrorCode::kWriteFailed, fmt::format("{}: another process has removed it", undo_journal_name(locked)));
  }
  return locked.directory().sync();
}

}  // namespace tzmark
