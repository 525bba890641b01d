// The layout section of v5-segments: the offsets of the segments.
#include <fmt/format.h>

#include <cstring>

#include "bytes/cursor.h"
#include "tzmark/error.h"
#include "tzmark/format.h"

namespace tzmark {
namespace {

constexpr std::uint8_t kVersion = 1;
constexpr std::uint8_t kEntryCount = 3;
constexpr std::uint8_t kTagMetadata = 1;
constexpr std::uint8_t kTagHeaders = 2;
constexpr std::uint8_t kTagData = 3;

}  // namespace

bool has_layout_section(std::span<const std::byte> bytes) {
  constexpr std::size_t kNeeded = kLayoutSectionBegin + offsetof(LayoutSectionWire, metadata_begin);
  return bytes.size() >= kNeeded && load<std::uint64_t>(bytes, kFileHeaderBytes) == sizeof(LayoutSectionWire) &&
         load<std::uint8_t>(bytes, kLayoutSectionBegin) == kVersion &&
         load<std::uint8_t>(bytes, kLayoutSectionBegin + 1) == kEntryCount &&
         load<std::uint8_t>(bytes, kLayoutSectionBegin + 2) == kTagMetadata;
}

Segments decode_layout_section(std::span<const std::byte> bytes) {
  if (bytes.size() < kLayoutSectionEnd) {
    throw Error(ErrorCode::kSegmentLayout, "the file ends inside its layout section", bytes.size());
  }
  if (const auto length = load<std::uint64_t>(bytes, kFileHeaderBytes); length != sizeof(LayoutSectionWire)) {
    throw Error(ErrorCode::kSegmentLayout, fmt::format("a layout section of {} bytes", length), kFileHeaderBytes);
  }
  LayoutSectionWire wire;
  std::memcpy(&wire, bytes.data() + kLayoutSectionBegin, sizeof wire);
  const auto check = [](std::uint8_t found, std::uint8_t wanted, std::string_view field, std::size_t at) {
    if (found != wanted) {
      throw Error(ErrorCode::kSegmentLayout, fmt::format("the {} is {} instead of {}", field, found, wanted),
                  kLayoutSectionBegin + at);
    }
  };
  check(wire.version, kVersion, "version of the layout section", offsetof(LayoutSectionWire, version));
  check(wire.entry_count, kEntryCount, "number of segments", offsetof(LayoutSectionWire, entry_count));
  check(wire.metadata_tag, kTagMetadata, "tag of the metadata segment", offsetof(LayoutSectionWire, metadata_tag));
  check(wire.headers_tag, kTagHeaders, "tag of the header segment", offsetof(LayoutSectionWire, headers_tag));
  check(wire.data_tag, kTagData, "tag of the data segment", offsetof(LayoutSectionWire, data_tag));
  return {wire.metadata_begin, wire.metadata_end, wire.headers_begin, wire.headers_end, wire.data_begin};
}

std::array<std::byte, kLayoutSectionEnd - kFileHeaderBytes> encode_layout_section(const Segments& segments) {
  const LayoutSectionWire wire{kVersion,
                               kEntryCount,
                               kTagMetadata,
                               segments.metadata_begin,
                               segments.metadata_end,
                               kTagHeaders,
                               segments.headers_begin,
                               segments.headers_end,
                               kTagData,
                               segments.data_begin};
  std::array<std::byte, kLayoutSectionEnd - kFileHeaderBytes> bytes;
  store<std::uint64_t>(bytes, 0, sizeof wire);
  std::memcpy(bytes.data() + sizeof(std::uint64_t), &wire, sizeof wire);
  return bytes;
}

}  // namespace tzmark
