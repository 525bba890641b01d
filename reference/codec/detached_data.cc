// The header of a detached data file.
#include "codec/detached_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "tzmark/error.h"

namespace tzmark {
namespace {

constexpr std::array<unsigned char, 5> kDataMagic = {'|', 'T', 'Z', 'D', '|'};
constexpr std::uint32_t kVersion = 1;

}  // namespace

void check_detached_data(const FileHeader& header, File& data_file) {
  if (data_file.size() < sizeof(DetachedDataHeaderWire)) {
    throw Error(ErrorCode::kDetachedDataFile, fmt::format("the data file has {} bytes", data_file.size()));
  }
  std::array<std::byte, offsetof(DetachedDataHeaderWire, unused)> bytes;
  data_file.read_at(0, std::span<std::byte>(bytes));
  DetachedDataHeaderWire wire{};
  std::memcpy(&wire, bytes.data(), bytes.size());
  if (!std::ranges::equal(wire.magic, kDataMagic)) {
    throw Error(ErrorCode::kDetachedDataFile, "the data file does not begin with |TZD|", 0);
  }
  if (const std::uint32_t version = wire.version; version != kVersion) {
    throw Error(ErrorCode::kDetachedDataFile, fmt::format("version {} of the data file's header is unknown", version),
                offsetof(DetachedDataHeaderWire, version));
  }
  if (const std::uint64_t number = wire.pair_number; number != header.pair_number) {
    throw Error(ErrorCode::kDetachedDataPair,
                fmt::format("the data file has pair number {:016x}, and the file has {:016x}; if replacing them was "
                            "interrupted, a file "
                            "with .tmp- in its name has the missing half",
                            number, header.pair_number),
                offsetof(DetachedDataHeaderWire, pair_number));
  }
}

void write_detached_data_header(std::uint64_t pair_number, File& data_file) {
  DetachedDataHeaderWire wire{};
  std::ranges::copy(kDataMagic, wire.magic);
  wire.version = kVersion;
  wire.pair_number = pair_number;
  data_file.write_at(0, std::as_bytes(std::span(&wire, 1)));
}

}  // namespace tzmark
