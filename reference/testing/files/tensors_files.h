// Small files for tests: tensors with content that is easy to tell apart, written to memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "testing/files/memory_file.h"
#include "tzmark/error.h"
#include "tzmark/io.h"
#include "tzmark/reader.h"
#include "tzmark/writer.h"

namespace tzmark::test {

// Tensors and their bytes, in the order of the table.
struct Content {
  TensorTable table;
  std::vector<std::vector<std::byte>> data;

  void add(const Path& path, std::string_view dtype, std::vector<std::uint64_t> shape, bool meta = false,
           Kind kind = Kind::kStateDict) {
    const auto index = static_cast<std::uint16_t>(table.size());
    table.add(path, kind, dtype_from_name(dtype), shape, meta, index);
    std::mt19937_64 random(1000 + index);
    auto& bytes = data.emplace_back(table[table.size() - 1].data_length);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  }

  MemorySource source() const {
    std::vector<ConstBuffer> views;
    for (const auto& bytes : data) views.emplace_back(bytes.data(), bytes.size());
    return MemorySource(std::move(views));
  }

  std::vector<std::byte> write(const WriteOptions& options = {}) const {
    MemoryFile file;
    write_tensors(file, table, source(), options);
    return file.content();
  }
};

// Plain tensors that need no more than data version 1.
inline Content three_tensors() {
  Content content;
  content.add({"a.weight"}, "float32", {2, 3});
  content.add({"b"}, "int64", {});
  content.add({"layers", std::uint64_t{0}, "bias"}, "uint8", {5});
  return content;
}

inline constexpr std::string_view kKeyHex = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

inline EncryptOptions with_key(std::uint64_t chunk_bytes = kDefaultChunkBytes) {
  return {key_from_hex(kKeyHex), chunk_bytes, 3, 256 << 20};
}

inline Reader open_bytes(std::vector<std::byte> bytes, ReadOptions options = {}) {
  return Reader(std::make_unique<MemoryFile>(std::move(bytes)), std::move(options));
}

inline ReadOptions key_options() {
  ReadOptions options;
  options.key = key_from_hex(kKeyHex);
  return options;
}

// A file that counts what is read from it.
class CountingFile final : public File {
 public:
  explicit CountingFile(std::vector<std::byte> bytes) : inner_(std::move(bytes)) {}

  std::string_view io_path() const override { return "counting"; }
  std::uint64_t size() const override { return inner_.size(); }
  std::uint64_t bytes_read() const { return bytes_read_; }
  std::size_t largest_read_bytes() const { return largest_read_bytes_; }

 protected:
  std::size_t read_some(std::uint64_t offset, MutableBuffer out) override {
    inner_.read_at(offset, out);
    bytes_read_ += out.size;
    std::size_t largest = largest_read_bytes_;
    while (largest < out.size && !largest_read_bytes_.compare_exchange_weak(largest, out.size)) {
    }
    return out.size;
  }
  std::size_t write_some(std::uint64_t, ConstBuffer) override { throw Error(ErrorCode::kWriteFailed, "read only"); }
  void sync_all() override {}

 private:
  MemoryFile inner_;
  std::atomic<std::uint64_t> bytes_read_ = 0;
  std::atomic<std::size_t> largest_read_bytes_ = 0;
};

// A file that another process changes while it is read: one byte is as it was at the first read, and other afterwards.
class ChangingFile final : public File {
 public:
  ChangingFile(std::vector<std::byte> content, std::uint64_t position)
      : content_(std::move(content)), position_(position) {}

  std::string_view io_path() const override { return "changing"; }
  std::uint64_t size() const override { return content_.size(); }

 protected:
  std::size_t read_some(std::uint64_t offset, MutableBuffer out) override {
    if (offset >= content_.size()) return 0;
    const std::size_t moved = std::min<std::size_t>(out.size, content_.size() - offset);
    std::copy_n(content_.begin() + static_cast<std::ptrdiff_t>(offset), moved, out.data);
    const bool touched = position_ >= offset && position_ - offset < moved;
    if (touched && was_read_.exchange(true)) out.data[position_ - offset] ^= std::byte{1};
    return moved;
  }
  std::size_t write_some(std::uint64_t offset, ConstBuffer) override {
    throw Error(ErrorCode::kWriteFailed, "the file is for reading", offset);
  }
  void sync_all() override {}

 private:
  const std::vector<std::byte> content_;
  const std::uint64_t position_;
  std::atomic<bool> was_read_ = false;
};

// The code of the error that action throws, if it throws one.
template <typename Action>
std::optional<ErrorCode> error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code();
  }
  return std::nullopt;
}

}  // namespace tzmark::test
