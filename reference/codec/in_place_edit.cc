// Locking, growing and committing.
#include "codec/in_place_edit.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <filesystem>
#include <random>
#include <system_error>

#include "codec/header_reading.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

constexpr std::size_t kDigits = 16;

// What the names of copies begin with that are to take the place of the file.
std::string growing_prefix(const std::string& name) {
  constexpr std::string_view kSuffix = ".tzmark-grow-";
  return name.substr(0, NAME_MAX - kSuffix.size() - kDigits) + std::string(kSuffix);
}

// A name that nothing else has: what has it is ours to remove.
std::string growing_name(const InPlaceFile& locked) {
  std::random_device random;
  return fmt::format("{}{:08x}{:08x}", growing_prefix(locked.name()), random(), random());
}

bool is_prefix_and_digits(const std::string& name, const std::string& prefix, std::size_t digits) {
  return name.size() == prefix.size() + digits && name.starts_with(prefix) &&
         name.find_first_not_of("0123456789abcdef", prefix.size()) == std::string::npos;
}

InPlaceFile lock_for_change(const std::string& file_name) {
  std::error_code failed;
  // A journal whose file is gone says more than that the file cannot be opened.
  if (!std::filesystem::exists(file_name, failed)) require_no_undo_journal(file_name);
  return InPlaceFile(file_name);
}

}  // namespace

Recovery recover(const std::string& file_name, RecoverOptions options) {
  InPlaceFile locked = lock_for_change(file_name);
  return recover_locked(locked, options);
}

std::vector<std::string> unfinished_files(const std::string& file_name) {
  const std::filesystem::path resolved = resolved_file_name(file_name);
  const std::string copy = growing_prefix(resolved.filename());
  const std::string journal = temporary_journal_stem(resolved.filename()) + ".tmp-";
  std::vector<std::string> found;
  std::error_code failed;
  // Where the directory cannot be listed, nothing is known of them.
  for (std::filesystem::directory_iterator entry(resolved.parent_path(), failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const std::string name = entry->path().filename();
    if (is_prefix_and_digits(name, copy, kDigits) || is_prefix_and_digits(name, journal, 8)) {
      found.push_back(entry->path());
    }
  }
  std::ranges::sort(found);
  return found;
}

namespace {

// Removes a file that this process has created. Closes it first: FUSE renames an open file instead, which not all of
// its file systems can.
void remove_unfinished(InPlaceFile created) noexcept {
  try {
    if (!created.is_named()) return;
    const auto directory = created.shared_directory();
    const std::string name = created.name();
    { const InPlaceFile closed = std::move(created); }
    directory->remove_file(name);
  } catch (const Error&) {
    // The caller is already throwing an error. unfinished_files lists what stays.
  }
}

}  // namespace

InPlaceEdit::InPlaceEdit(const std::string& file_name, std::string io_path, Durability durability)
    : io_path_(std::move(io_path)), locked_(lock_for_change(file_name)) {
  if (locked_.name_count() > 1) {
    throw Error(ErrorCode::kUsage, "the file has other names (hard links), under which a change would not be seen");
  }
  if (const std::string journal = undo_journal_name(locked_); journal.size() > NAME_MAX) {
    throw Error(ErrorCode::kOpenFailed,
                fmt::format("the undo journal of the change would be called {}, which has {} bytes, and at most {} are "
                            "possible: rename the file first",
                            journal, journal.size(), NAME_MAX));
  }
  if (durability == Durability::kRequired) locked_.directory().require_sync();
  recover_locked(locked_);
  read();
}

InPlaceEdit::~InPlaceEdit() {
  if (!begun_) return;
  // What it has not written yet must not come after the recovery.
  file_.reset();
  // The sync of the first attempt may report an earlier write that failed; the second attempt writes everything again.
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      recover_locked(locked_);
      return;
    } catch (...) {
      // What went wrong first is on its way to the caller already.
    }
  }
}

void InPlaceEdit::read() {
  file_ = locked_.open(io_path_);
  file_->expect_sync();
  index_ = read_index(*file_);
  if (!has_segments(index_.layout)) {
    throw Error(ErrorCode::kUsage,
                fmt::format("only v5-segments files are changed in place, and this is {}; convert it",
                            layout_name(index_.layout)));
  }
  const std::size_t last = index_.in_file_order(index_.tensors.size() - 1);
  TensorHeader header;
  const std::vector<std::byte> bytes = read_header(*file_, index_, last);
  headers_end_ = index_.tensors[last].header_offset + decode_header(index_, last, bytes, header).size();
}

void InPlaceEdit::make_room(Segment segment, std::uint64_t content_end) {
  Segments after = index_.segments;
  std::uint64_t& end = segment == Segment::kMetadata ? after.metadata_end : after.headers_end;
  if (content_end <= end) return;
  const std::uint64_t begin = segment == Segment::kMetadata ? after.metadata_begin : after.headers_begin;
  // At least twice the size, so that a file that grows by small steps is seldom shifted.
  const std::uint64_t wanted = std::max(content_end, end + (end - begin));
  const std::uint64_t at = end;
  end = (wanted + kSegmentEndUnit - 1) / kSegmentEndUnit * kSegmentEndUnit;
  const std::uint64_t bytes = end - at;
  if (segment == Segment::kMetadata) {
    after.headers_begin += bytes;
    after.headers_end += bytes;
  }
  after.data_begin += bytes;

  const auto started = std::chrono::steady_clock::now();
  insert(at, bytes, after);
  read();
  ++growth_.times;
  growth_.elapsed_ns += static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - started).count());
}

void InPlaceEdit::insert(std::uint64_t at, std::uint64_t bytes, const Segments& after) {
  const auto section = encode_layout_section(after);
  begun_ = true;
  note(write_insert_journal(locked_, *file_, at, bytes, kFileHeaderBytes, section));
  if (!locked_.insert(at, bytes)) {
    note(remove_undo_journal(locked_));
    begun_ = false;
    return copy(at, bytes, after);
  }
  // The file system may keep the write below and lose the room that it is about, unless that is durable first.
  file_->sync();
  file_->write_at(kFileHeaderBytes, std::span<const std::byte>(section));
  commit();
  growth_.inserted_bytes += bytes;
}

void InPlaceEdit::copy(std::uint64_t at, std::uint64_t bytes, const Segments& after) {
  InPlaceFile grown = InPlaceFile::create_beside(locked_, growing_name(locked_));
  try {
    const auto file = grown.open(io_path_);
    file->expect_sync();
    const std::uint64_t file_bytes = locked_.size();
    copy_bytes(*file_, 0, *file, 0, at);
    copy_bytes(*file_, at, *file, at + bytes, file_bytes - at);
    file->write_at(kFileHeaderBytes, std::span<const std::byte>(encode_layout_section(after)));
    // No one but its owner can read it until it is whole.
    growth_.owner_kept = locked_.give_attributes_to(grown.get()) && growth_.owner_kept;
    file->sync();
    grown.replace(locked_);
    growth_.copied_bytes += file_bytes;
  } catch (...) {
    remove_unfinished(std::move(grown));
    throw;
  }
  note(grown.directory().sync());
  locked_ = std::move(grown);
}

void InPlaceEdit::begin(std::vector<ByteRange> ranges, std::uint64_t file_bytes_max) {
  ranges.push_back({0, kFileHeaderBytes});
  ranges.push_back({index_.begin - sizeof(std::uint64_t), sizeof(std::uint64_t)});
  begun_ = true;
  note(write_overwrite_journal(locked_, *file_, std::move(ranges), file_bytes_max));
}

void InPlaceEdit::write_head(std::uint64_t tensor_count, std::uint64_t total_data_bytes, std::uint64_t index_length) {
  FileHeader header = index_.header;
  header.tensor_count = tensor_count;
  header.total_data_bytes = total_data_bytes;
  file_->write_at(index_.begin - sizeof index_length, std::as_bytes(std::span(&index_length, 1)));
  file_->write_at(0, std::span<const std::byte>(encode_file_header(header)));
}

void InPlaceEdit::commit() {
  file_->sync();
  note(remove_undo_journal(locked_));
  begun_ = false;
  // The lock binds only those who ask for it: what was written may have lost its name to another file.
  locked_.require_named();
}

}  // namespace tzmark
