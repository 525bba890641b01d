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
      : file_name_(file_name), file_(open_file(intent_file_name(file_name), OpenMode::kCreate)) {
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

IntentHeaderWire header_of(IntentKind kind, std::uint64_t file_bytes, std::uint64_t insert_bytes,
                           std::span<const Range> ranges) {
  IntentHeaderWire header{};
  std::ranges::copy(kMagic, header.magic);
  header.version = kVersion;
  header.kind = static_cast<std::uint32_t>(kind);
  header.file_bytes = file_bytes;
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

void write_ranges(File& intent, const IntentHeaderWire& header, File& file) {
  std::uint64_t at = sizeof header;
  for (std::uint64_t i = 0; i < header.range_count; ++i) {
    std::array<std::byte, kRangeBytes> raw;
    intent.read_at(at, std::span<std::byte>(raw));
    const auto length = load<std::uint64_t>(raw, sizeof(std::uint64_t));
    copy_bytes(intent, at + kRangeBytes, file, load<std::uint64_t>(raw, 0), length);
    at += kRangeBytes + length;
  }
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
  intent.structure(header_of(IntentKind::kOverwrite, file.size(), 0, ranges));
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

void write_insert_intent(const std::string& file_name, const InPlaceFile& locked, std::uint64_t insert_bytes,
                         std::uint64_t offset, std::span<const std::byte> bytes) {
  const Range range{offset, bytes.size()};
  IntentWriter intent(file_name, locked);
  intent.structure(header_of(IntentKind::kInsert, locked.size(), insert_bytes, std::span(&range, 1)));
  intent.structure(range);
  intent.bytes(bytes);
  intent.finish();
}

void remove_intent(const std::string& file_name) {
  if (::unlink(intent_file_name(file_name).c_str()) != 0)
    throw_errno(ErrorCode::kWriteFailed, "cannot remove the intent");
  sync_directory_of(file_name);
}

Recovery recover_locked(const std::string& file_name, InPlaceFile& locked) {
  if (!std::filesystem::exists(intent_file_name(file_name))) return Recovery::kNothing;
  Recovery result = Recovery::kUndone;
  {
    const auto intent = open_file(intent_file_name(file_name), OpenMode::kRead);
    IntentHeaderWire header;
    if (is_whole(*intent, header)) {
      const auto file = open_file(file_name, OpenMode::kModify);
      if (header.kind == static_cast<std::uint32_t>(IntentKind::kOverwrite)) {
        write_ranges(*intent, header, *file);
        file->sync();
        locked.resize(header.file_bytes);
        file->sync();
      } else if (locked.size() == header.file_bytes + header.insert_bytes) {
        write_ranges(*intent, header, *file);
        file->sync();
        result = Recovery::kFinished;
      } else if (locked.size() != header.file_bytes) {
        throw Error(ErrorCode::kEditInterrupted,
                    fmt::format("room was to be made in a file of {} bytes, which now has {}: somebody else changed it",
                                std::uint64_t{header.file_bytes}, locked.size()));
      }
    }
  }
  remove_intent(file_name);
  return result;
}

}  // namespace tzmark
