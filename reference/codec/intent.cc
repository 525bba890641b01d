// Writing, reading and carrying out intents.
#include "codec/intent.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "bytes/cursor.h"
#include "bytes/digest.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

constexpr std::array<unsigned char, 8> kMagic = {'|', 'T', 'Z', 'I', 'N', 'T', 'E', '|'};
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kPieceBytes = 1 << 20;
constexpr std::size_t kRangeBytes = 2 * sizeof(std::uint64_t);

// Writes the parts of an intent one behind another, and hashes them on the way.
class IntentWriter {
 public:
  IntentWriter(const std::string& file_name, const InPlaceFile& locked)
      : file_name_(file_name), file_(open_file(intent_file_name(file_name), OpenMode::kCreatePrivate)) {
    InPlaceFile(intent_file_name(file_name)).take_attributes_of(locked);
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
  void finish() {
    const Sha256Digest digest = digest_.finish();
    file_->write_at(position_, std::span<const std::byte>(digest));
    file_->sync();
    sync_directory_of(file_name_);
  }

 private:
  const std::string file_name_;
  std::unique_ptr<File> file_;
  Sha256 digest_;
  std::uint64_t position_ = 0;
};

std::uint32_t crc32_of(const IntentHeaderWire& header) {
  return crc32(0, std::as_bytes(std::span(&header, 1)).first(offsetof(IntentHeaderWire, crc32)));
}

IntentHeaderWire header_of(IntentKind kind, const InPlaceFile& locked, std::uint64_t insert_bytes,
                           std::span<const Range> ranges) {
  IntentHeaderWire header{};
  std::ranges::copy(kMagic, header.magic);
  header.version = kVersion;
  header.kind = static_cast<std::uint32_t>(kind);
  header.file_number = locked.file_number();
  header.file_bytes = locked.size();
  header.insert_bytes = insert_bytes;
  header.range_count = ranges.size();
  header.intent_bytes = sizeof header + sizeof(Sha256Digest);
  for (const Range& range : ranges) header.intent_bytes += kRangeBytes + range.length;
  header.crc32 = crc32_of(header);
  return header;
}

[[noreturn]] void refuse_damaged() {
  throw Error(ErrorCode::kEditInterrupted,
              "the file's .tzmark-intent is damaged; if the file verifies without it, remove it");
}

// An intent that was not written to its end never counted: the file has not been touched.
bool is_whole(File& intent, IntentHeaderWire& header) {
  if (intent.size() < sizeof header) return false;
  std::array<std::byte, sizeof header> raw;
  intent.read_at(0, std::span<std::byte>(raw));
  std::memcpy(&header, raw.data(), sizeof header);
  if (!std::ranges::equal(header.magic, kMagic) || header.version != kVersion || header.crc32 != crc32_of(header)) {
    refuse_damaged();
  }
  if (intent.size() < header.intent_bytes) return false;
  Sha256 digest;
  std::vector<std::byte> piece(kPieceBytes);
  const std::uint64_t hashed = intent.size() - sizeof(Sha256Digest);
  for (std::uint64_t at = 0; at < hashed;) {
    const auto part =
        std::span(piece).first(static_cast<std::size_t>(std::min<std::uint64_t>(kPieceBytes, hashed - at)));
    intent.read_at(at, part);
    digest.update(part);
    at += part.size();
  }
  Sha256Digest stored;
  intent.read_at(hashed, std::span<std::byte>(stored));
  if (stored != digest.finish()) refuse_damaged();
  return true;
}

// Calls visit with each range, and where its bytes are in the intent.
template <typename Visit>
void for_each_range(File& intent, const IntentHeaderWire& header, Visit&& visit) {
  std::uint64_t at = sizeof header;
  for (std::uint64_t i = 0; i < header.range_count; ++i) {
    std::array<std::byte, kRangeBytes> raw;
    intent.read_at(at, std::span<std::byte>(raw));
    const Range range{load<std::uint64_t>(raw, 0), load<std::uint64_t>(raw, sizeof(std::uint64_t))};
    visit(range, at + kRangeBytes);
    at += kRangeBytes + range.length;
  }
}

// The first bytes behind a position that are not all zeros, if there are any soon. Room is made from the end of the
// file on backwards, and what is in front of them reads as zeros whether it was moved or not: so if they were moved,
// all was.
Range find_probe(File& file, std::uint64_t at) {
  constexpr std::uint64_t kReachBytes = 16 << 20;
  constexpr std::uint64_t kProbeBytes = 64;
  std::vector<std::byte> piece(kPieceBytes);
  const std::uint64_t end = std::min(file.size(), at + kReachBytes);
  while (at < end) {
    const auto part = std::span(piece).first(static_cast<std::size_t>(std::min<std::uint64_t>(kPieceBytes, end - at)));
    file.read_at(at, part);
    const auto found = std::ranges::find_if(part, [](std::byte b) { return b != std::byte{0}; });
    at += static_cast<std::uint64_t>(found - part.begin());
    if (found != part.end()) return {at, std::min(kProbeBytes, file.size() - at)};
  }
  return {at, 0};
}

void undo_overwrite(File& intent, const IntentHeaderWire& header, File& file, InPlaceFile& locked) {
  for_each_range(intent, header, [&](Range range, std::uint64_t bytes_at) {
    copy_bytes(intent, bytes_at, file, range.offset, range.length);
  });
  file.sync();
  locked.resize(header.file_bytes);
  file.sync();
}

// The first range is to be written, and the second says where to look whether the data was moved.
Recovery end_insert(File& intent, const IntentHeaderWire& header, File& file, const InPlaceFile& locked) {
  if (locked.size() == header.file_bytes) return Recovery::kUndone;
  if (locked.size() != header.file_bytes + header.insert_bytes) {
    throw Error(ErrorCode::kEditInterrupted,
                fmt::format("room was to be made in a file of {} bytes, which now has {}: somebody else changed it",
                            std::uint64_t{header.file_bytes}, locked.size()));
  }
  Range section{}, probe{};
  std::uint64_t section_at = 0, probe_at = 0;
  for_each_range(intent, header, [&](Range range, std::uint64_t bytes_at) {
    section = std::exchange(probe, range);
    section_at = std::exchange(probe_at, bytes_at);
  });
  std::vector<std::byte> before(probe.length), after(probe.length);
  intent.read_at(probe_at, std::span(before));
  file.read_at(probe.offset + header.insert_bytes, std::span(after));
  if (before != after) {
    throw Error(ErrorCode::kEditInterrupted,
                "the file has grown, but what it holds was not moved: the file system has lost a part of the change");
  }
  copy_bytes(intent, section_at, file, section.offset, section.length);
  file.sync();
  return Recovery::kFinished;
}

}  // namespace

std::string resolved_file_name(const std::string& file_name) {
  std::error_code failed;
  const auto resolved = std::filesystem::canonical(file_name, failed);
  return failed ? file_name : resolved.string();
}

std::string intent_file_name(const std::string& file_name) { return resolved_file_name(file_name) + ".tzmark-intent"; }

void write_overwrite_intent(const std::string& file_name, const InPlaceFile& locked, File& file,
                            std::vector<Range> ranges) {
  for (Range& range : ranges) {
    range.length = range.offset >= file.size() ? 0 : std::min(range.length, file.size() - range.offset);
  }
  IntentWriter intent(file_name, locked);
  intent.structure(header_of(IntentKind::kOverwrite, locked, 0, ranges));
  std::vector<std::byte> piece(kPieceBytes);
  for (const Range& range : ranges) {
    intent.structure(range);
    for (std::uint64_t done = 0; done < range.length;) {
      const auto part =
          std::span(piece).first(static_cast<std::size_t>(std::min<std::uint64_t>(kPieceBytes, range.length - done)));
      file.read_at(range.offset + done, part);
      intent.bytes(part);
      done += part.size();
    }
  }
  intent.finish();
}

void write_insert_intent(const std::string& file_name, const InPlaceFile& locked, File& file, std::uint64_t at,
                         std::uint64_t insert_bytes, std::uint64_t offset, std::span<const std::byte> bytes) {
  const std::array ranges = {Range{offset, bytes.size()}, find_probe(file, at)};
  std::vector<std::byte> probe(ranges[1].length);
  file.read_at(ranges[1].offset, std::span(probe));
  IntentWriter intent(file_name, locked);
  intent.structure(header_of(IntentKind::kInsert, locked, insert_bytes, ranges));
  intent.structure(ranges[0]);
  intent.bytes(bytes);
  intent.structure(ranges[1]);
  intent.bytes(probe);
  intent.finish();
}

void remove_intent(const std::string& file_name) {
  if (::unlink(intent_file_name(file_name).c_str()) != 0)
    throw_errno(ErrorCode::kWriteFailed, "cannot remove the intent");
  sync_directory_of(file_name);
}

bool has_intent(const std::string& file_name) {
  // A name that is too long to be looked up belongs to no file.
  std::error_code failed;
  return std::filesystem::exists(intent_file_name(file_name), failed);
}

Recovery recover_locked(const std::string& file_name, InPlaceFile& locked) {
  if (!has_intent(file_name)) return Recovery::kNothing;
  Recovery result = Recovery::kUndone;
  {
    const auto intent = open_file(intent_file_name(file_name), OpenMode::kRead);
    IntentHeaderWire header;
    if (is_whole(*intent, header)) {
      if (header.file_number != locked.file_number() || !locked.is_named(file_name)) {
        throw Error(ErrorCode::kEditInterrupted,
                    "the .tzmark-intent is about another file that stood here; if this one verifies without it, remove "
                    "it");
      }
      const auto file = open_file(file_name, OpenMode::kModify);
      switch (static_cast<IntentKind>(header.kind)) {
        case IntentKind::kOverwrite:
          undo_overwrite(*intent, header, *file, locked);
          break;
        case IntentKind::kInsert:
          result = end_insert(*intent, header, *file, locked);
          break;
        default:
          refuse_damaged();
      }
    }
  }
  remove_intent(file_name);
  return result;
}

}  // namespace tzmark
