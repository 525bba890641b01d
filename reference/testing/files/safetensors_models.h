// Small safetensors files for tests, and files in memory that tell how they were used.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bytes/cursor.h"
#include "testing/files/memory_file.h"
#include "testing/files/tensors_files.h"
#include "tzmark/safetensors.h"

namespace tzmark::test {

// A file of this header, whatever it says, and this data.
inline std::vector<std::byte> safetensors_bytes(std::string_view header, std::size_t data_bytes = 0) {
  std::vector<std::byte> bytes;
  ByteWriter writer(bytes);
  writer.integer(std::uint64_t{header.size()});
  writer.bytes(as_bytes(header));
  for (std::size_t i = 0; i < data_bytes; ++i) writer.integer(static_cast<std::uint8_t>(i * 7 + 1));
  return bytes;
}

inline SafetensorsReader open_safetensors(std::vector<std::byte> bytes, SafetensorsReadOptions options = {}) {
  return SafetensorsReader(std::make_unique<MemoryFile>(std::move(bytes)), std::move(options));
}

// Every dtype that both formats have.
inline constexpr std::array<std::string_view, 19> kSharedDtypes = {"bool",
                                                                   "uint8",
                                                                   "int8",
                                                                   "float8_e5m2",
                                                                   "float8_e4m3fn",
                                                                   "float8_e8m0fnu",
                                                                   "float8_e4m3fnuz",
                                                                   "float8_e5m2fnuz",
                                                                   "int16",
                                                                   "uint16",
                                                                   "float16",
                                                                   "bfloat16",
                                                                   "int32",
                                                                   "uint32",
                                                                   "float32",
                                                                   "complex64",
                                                                   "float64",
                                                                   "int64",
                                                                   "uint64"};

// Tensors of all those dtypes, among them a scalar and one without elements, in no special order.
inline Content all_dtypes() {
  Content content;
  for (const std::string_view dtype : kSharedDtypes) content.add({"t." + std::string(dtype)}, dtype, {2, 3});
  content.add({"scalar"}, "float32", {});
  content.add({"empty"}, "float32", {4, 0, 2});
  content.add({"one"}, "bool", {1});
  return content;
}

// Hands calls on to a file that somebody else owns.
class BorrowedFile final : public File {
 public:
  explicit BorrowedFile(File& inner) : inner_(inner) {}

  std::string_view io_path() const override { return inner_.io_path(); }
  std::uint64_t size() const override { return inner_.size(); }

 protected:
  std::size_t read_some(std::uint64_t offset, MutableBuffer out) override {
    inner_.read_at(offset, out);
    return out.size;
  }
  std::size_t write_some(std::uint64_t offset, ConstBuffer in) override {
    inner_.write_at(offset, in);
    return in.size;
  }
  void sync_all() override { inner_.sync(); }

 private:
  File& inner_;
};

}  // namespace tzmark::test
