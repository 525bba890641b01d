// Little-endian reading and writing of wire structures, bounds-checked.
//
// ByteReader walks over bytes of a file. It knows their offset in the file and the error of a read past their end, so
// that decoders report the right rule id and byte offset without naming them for each field. Neither class owns its
// bytes; both are for one thread at a time.
#pragma once

#include <fmt/format.h>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "bytes/requires.h"
#include "tzmark/error.h"

namespace tzmark {

static_assert(std::endian::native == std::endian::little, "the wire format is copied as it is: little-endian only");

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// REQUIRES: at + sizeof(T) <= bytes.size().
template <std::integral T>
T load(std::span<const std::byte> bytes, std::size_t at) {
  TZMARK_REQUIRES(at <= bytes.size() && sizeof(T) <= bytes.size() - at);
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

// REQUIRES: at + sizeof(T) <= bytes.size().
template <std::integral T>
void store(std::span<std::byte> bytes, std::size_t at, T value) {
  TZMARK_REQUIRES(at <= bytes.size() && sizeof(T) <= bytes.size() - at);
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

class ByteReader {
 public:
  // file_offset: where bytes begin in the file. past_end, region: the error for a field that does not fit.
  ByteReader(std::span<const std::byte> bytes, std::uint64_t file_offset, ErrorCode past_end, std::string_view region)
      : bytes_(bytes), file_offset_(file_offset), past_end_(past_end), region_(region) {}

  std::size_t position() const { return position_; }
  std::size_t remaining() const { return bytes_.size() - position_; }
  std::uint64_t file_position() const { return file_offset_ + position_; }

  // Returns the next length bytes. field: the name in the error.
  std::span<const std::byte> take(std::uint64_t length, std::string_view field) {
    if (length > remaining()) {
      throw Error(past_end_, fmt::format("{} runs past the end of {}", field, region_), file_position());
    }
    const auto taken = bytes_.subspan(position_, static_cast<std::size_t>(length));
    position_ += static_cast<std::size_t>(length);
    return taken;
  }

  template <std::integral T>
  T integer(std::string_view field) {
    return load<T>(take(sizeof(T), field), 0);
  }

  // Reads a length of type Length, then that many bytes.
  template <std::integral Length>
  std::string_view text(std::string_view field) {
    return as_text(take(integer<Length>(field), field));
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
  std::uint64_t file_offset_;
  ErrorCode past_end_;
  std::string_view region_;
};

// Appends to a vector that the caller owns.
class ByteWriter {
 public:
  explicit ByteWriter(std::vector<std::byte>& out) : out_(out) {}

  std::size_t position() const { return out_.size(); }

  template <std::integral T>
  void integer(T value) {
    std::byte raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    out_.insert(out_.end(), raw, raw + sizeof(T));
  }

  void bytes(std::span<const std::byte> value) { out_.insert(out_.end(), value.begin(), value.end()); }
  void zeros(std::size_t count) { out_.insert(out_.end(), count, std::byte{0}); }

  template <std::integral Length>
  void text(std::string_view value) {
    integer(static_cast<Length>(value.size()));
    bytes(as_bytes(value));
  }

 private:
  std::vector<std::byte>& out_;
};

}  // namespace tzmark
