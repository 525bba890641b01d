// Locating and decoding tensor headers.
#include "codec/header_reading.h"

#include <fmt/format.h>

#include <algorithm>

#include "bytes/cursor.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

// Most headers are shorter than this, and need only one read.
constexpr std::size_t kFirstReadBytes = 1024;

// The upper bound of a header's end, and the rule that sets it.
struct Limit {
  std::uint64_t offset;
  ErrorCode code;
};

Limit header_limit(const Index& index, std::size_t tensor) {
  if (!headers_first(index.layout)) return {index.tensors[tensor].data_offset, ErrorCode::kRecordTruncated};
  if (const std::size_t next = index.place_in_file(tensor) + 1; next < index.tensors.size()) {
    return {index.tensors[index.in_file_order(next)].header_offset, ErrorCode::kIndexOverlap};
  }
  if (has_segments(index.layout)) return {index.headers_end, ErrorCode::kSegmentHeader};
  return {index.headers_end, index.has_data ? ErrorCode::kIndexDataBeforeHeaders : ErrorCode::kRecordTruncated};
}

}  // namespace

std::size_t header_room(const Index& index, std::size_t tensor) {
  const TensorInfo info = index.tensors[tensor];
  const std::uint64_t room = header_limit(index, tensor).offset - info.header_offset;
  const std::uint64_t most = tensor_header_bytes_max(info.fields(), index.header.encrypted);
  if (room <= most) return static_cast<std::size_t>(room);
  if (headers_first(index.layout)) return static_cast<std::size_t>(most);
  throw Error(ErrorCode::kRecordExtraBytes,
              fmt::format("a header of {} bytes, which is more than its fields can fill", room), info.header_offset);
}

std::span<const std::byte> decode_header(const Index& index, std::size_t tensor, std::span<const std::byte> bytes,
                                         TensorHeader& result) {
  const TensorInfo info = index.tensors[tensor];
  const Limit limit = header_limit(index, tensor);
  if (headers_first(index.layout) && bytes.size() >= sizeof(std::uint64_t)) {
    const auto length = load<std::uint64_t>(bytes, 0);
    if (length > limit.offset - info.header_offset) {
      throw Error(limit.code,
                  fmt::format("the header of '{}' has {} bytes, but must end before {}", display_path(info.path()),
                              length, limit.offset),
                  info.header_offset);
    }
    if (length > bytes.size()) {
      throw Error(ErrorCode::kRecordExtraBytes,
                  fmt::format("a header of {} bytes, which is more than its fields can fill", length),
                  info.header_offset);
    }
    // A length of 0 is a terminator, which the decoder reports.
    if (length != 0) bytes = bytes.first(static_cast<std::size_t>(length));
  } else {
    bytes = bytes.first(std::min<std::size_t>(bytes.size(), limit.offset - info.header_offset));
  }
  decode_tensor_header(bytes, info.header_offset, {index.header.encrypted, info.wide_dimensions}, result);
  check_header_agrees(info.fields(), result, info.header_offset);
  return bytes;
}

std::vector<std::byte> read_header(File& file, const Index& index, std::size_t tensor) {
  const std::uint64_t offset = index.tensors[tensor].header_offset;
  const std::size_t room = header_room(index, tensor);
  std::vector<std::byte> bytes(headers_first(index.layout) ? std::min(room, kFirstReadBytes) : room);
  file.read_at(offset, std::span(bytes));
  if (bytes.size() < room) {
    const std::size_t have = bytes.size();
    const auto length = std::min<std::uint64_t>(room, load<std::uint64_t>(bytes, 0));
    if (length > have) {
      bytes.resize(static_cast<std::size_t>(length));
      file.read_at(offset + have, std::span(bytes).subspan(have));
    }
  }
  return bytes;
}

}  // namespace tzmark
