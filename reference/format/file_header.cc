// The file header, layouts and kinds.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "bytes/cursor.h"
#include "tzmark/error.h"
#include "tzmark/format.h"

namespace tzmark {
namespace {

constexpr std::array<std::string_view, 3> kKindNames = {"parameter", "buffer", "state_dict"};
constexpr std::uint32_t kFirstVersionWithFlags = 4;
constexpr std::uint32_t kAlwaysEncryptedVersion = 3;
constexpr unsigned char kFlagEncrypted = 1;
// tzmark's own mark: the highest flag, so that every other reader refuses the file.
constexpr std::uint32_t kFirstVersionWithDetachedData = 5;
constexpr unsigned char kFlagDetachedData = 0x80;

}  // namespace

std::optional<Layout> layout_from_name(std::string_view name) {
  const auto found = std::ranges::find(kLayoutTraits, name, &LayoutTraits::name);
  if (found == kLayoutTraits.end()) return std::nullopt;
  return found->layout;
}

std::string_view kind_name(Kind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }

FileHeader decode_file_header(std::span<const std::byte> bytes) {
  FileHeaderWire wire;
  const std::size_t magic_bytes = std::min(bytes.size(), kMagic.size());
  if (!std::ranges::equal(bytes.first(magic_bytes), std::as_bytes(std::span(kMagic)).first(magic_bytes))) {
    throw Error(ErrorCode::kHeaderMagic, "not a .tensors file: it does not begin with |TZR|", 0);
  }
  if (bytes.size() < sizeof wire) {
    throw Error(ErrorCode::kHeaderTruncated,
                fmt::format("the file ends inside the file header of {} bytes", sizeof wire), bytes.size());
  }
  std::memcpy(&wire, bytes.data(), sizeof wire);
  if (wire.data_version < 1 || wire.data_version > 5) {
    const std::uint32_t version = wire.data_version;
    throw Error(ErrorCode::kHeaderVersion, fmt::format("data version {} is not one of 1 to 5", version),
                offsetof(FileHeaderWire, data_version));
  }
  FileHeader header;
  header.data_version = wire.data_version;
  header.encrypted = header.data_version == kAlwaysEncryptedVersion;
  // Before version 4 the flags were reserved bytes without a meaning.
  if (header.data_version >= kFirstVersionWithFlags) {
    header.encrypted = (wire.feature_flags[0] & kFlagEncrypted) != 0;
    unsigned char& last = wire.feature_flags[sizeof wire.feature_flags - 1];
    header.detached_data = header.data_version >= kFirstVersionWithDetachedData && (last & kFlagDetachedData) != 0;
    wire.feature_flags[0] &= static_cast<unsigned char>(~kFlagEncrypted);
    for (const LayoutTraits& traits : kLayoutTraits) {
      if (traits.data_version == header.data_version) header.layout_flag |= traits.feature_flag & wire.feature_flags[0];
    }
    // Detached data is always in v5-segments, so the flag of another layout is unknown there; and a layout has one.
    if (!header.detached_data && std::popcount(header.layout_flag) == 1) wire.feature_flags[0] ^= header.layout_flag;
    if (header.detached_data) last &= static_cast<unsigned char>(~kFlagDetachedData);
    for (std::size_t i = 0; i < sizeof wire.feature_flags; ++i) {
      const unsigned unknown = wire.feature_flags[i];
      if (unknown != 0) {
        throw Error(ErrorCode::kHeaderFlags, fmt::format("unknown feature flags {:02x} in byte {}", unknown, i),
                    offsetof(FileHeaderWire, feature_flags) + i);
      }
    }
  }
  header.total_data_bytes = wire.total_data_bytes;
  if (header.detached_data) header.pair_number = wire.pair_number;
  header.tensor_count = wire.tensor_count;
  if (header.tensor_count == 0) {
    throw Error(ErrorCode::kHeaderCount, "the tensor count is 0", offsetof(FileHeaderWire, tensor_count));
  }
  return header;
}

std::array<std::byte, kFileHeaderBytes> encode_file_header(const FileHeader& header) {
  FileHeaderWire wire{};
  std::memcpy(wire.magic, kMagic.data(), kMagic.size());
  wire.data_version = header.data_version;
  if (header.encrypted && header.data_version >= kFirstVersionWithFlags) wire.feature_flags[0] |= kFlagEncrypted;
  wire.feature_flags[0] |= header.layout_flag;
  if (header.detached_data) wire.feature_flags[sizeof wire.feature_flags - 1] = kFlagDetachedData;
  wire.total_data_bytes = header.total_data_bytes;
  wire.pair_number = header.pair_number;
  wire.tensor_count = header.tensor_count;
  std::array<std::byte, kFileHeaderBytes> bytes;
  std::memcpy(bytes.data(), &wire, sizeof wire);
  return bytes;
}

}  // namespace tzmark
