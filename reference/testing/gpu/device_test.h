// For tests of GPU memory: files to load, and what is in device memory.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "testing/files/tensors_files.h"
#include "tzmark/device.h"

namespace tzmark::test {

// Large tensors and small ones, of lengths around pages, messages and pieces.
inline Content several_sizes() {
  Content content;
  unsigned number = 0;
  for (const std::uint64_t bytes : {3, 600'000, 70'001, 0, 8'191, 1, 200'000, 262'144, 65'537, 4'095, 300'003}) {
    content.add({"t", std::uint64_t{number++}}, "uint8", {bytes});
  }
  content.add({"meta"}, "float32", {7}, /*meta=*/true);
  return content;
}

inline std::vector<std::byte> on_host(ConstBuffer tensor) {
  std::vector<std::byte> bytes(tensor.size);
  copy_to_host(tensor, bytes);
  return bytes;
}

// chunk_bytes: of encryption; 0 without.
inline void write_to(const std::string& name, const Content& content, std::uint64_t chunk_bytes,
                     Layout layout = Layout::kV4) {
  WriteOptions writing;
  writing.layout = layout;
  writing.piece_bytes = 512 << 10;
  if (chunk_bytes != 0) writing.encrypt = with_key(chunk_bytes);
  write_file(name, content.table, content.source(), writing);
}

inline Reader open_by(const std::string& path, const std::string& name, bool encrypted, std::size_t piece_bytes) {
  ReadOptions options = encrypted ? key_options() : ReadOptions();
  options.piece_bytes = piece_bytes;
  options.io_path = path;
  return Reader::open(name, std::move(options));
}

// Copies of the Reader's piece size, which are many where that is small.
inline DeviceReadOptions in_small_copies(DeviceReadOptions options = {}) {
  options.piece_bytes = 0;
  return options;
}

inline std::vector<ConstBuffer> views_of(const DeviceTensors& tensors) {
  std::vector<ConstBuffer> views;
  for (std::size_t i = 0; i < tensors.size(); ++i) views.emplace_back(tensors[i]);
  return views;
}

inline void expect_same(const Content& content, const DeviceTensors& loaded) {
  ASSERT_EQ(loaded.size(), content.data.size());
  for (std::size_t i = 0; i < loaded.size(); ++i) EXPECT_EQ(on_host(loaded[i]), content.data[i]) << i;
}

}  // namespace tzmark::test
