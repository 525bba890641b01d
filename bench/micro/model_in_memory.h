// Files in memory for micro benchmarks: many small tensors with the names of a large model.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "tzmark/error.h"
#include "tzmark/io.h"
#include "tzmark/table.h"
#include "tzmark/writer.h"

namespace tzmark::bench {

inline constexpr std::size_t kSmallTensorBytes = 64;

// A view of bytes as a File, so that opening it makes no system call. A writable one grows. For one thread at a time.
class BytesFile final : public File {
 public:
  explicit BytesFile(std::shared_ptr<std::vector<std::byte>> bytes) : bytes_(std::move(bytes)) {}

  std::string_view io_path() const override { return "memory"; }
  std::uint64_t size() const override { return bytes_->size(); }

 protected:
  std::size_t read_some(std::uint64_t offset, MutableBuffer out) override {
    const std::size_t count = offset < bytes_->size() ? std::min<std::size_t>(out.size, bytes_->size() - offset) : 0;
    if (count > 0) std::memcpy(out.data, bytes_->data() + offset, count);
    return count;
  }
  std::size_t write_some(std::uint64_t offset, ConstBuffer in) override {
    bytes_->resize(std::max<std::size_t>(bytes_->size(), offset + in.size));
    std::memcpy(bytes_->data() + offset, in.data, in.size);
    return in.size;
  }
  void sync_all() override {}

 private:
  const std::shared_ptr<std::vector<std::byte>> bytes_;
};

inline std::string tensor_name(std::size_t i) {
  return fmt::format("model.layers.{}.mlp.experts.{}.weight", i / 64, i % 64);
}

// The table of count tensors, and a file of them that write(file, table, source) makes.
class ModelInMemory {
 public:
  template <typename Write>
  ModelInMemory(std::size_t count, const Write& write) {
    constexpr std::array<std::uint64_t, 2> kShape = {4, 4};
    const Dtype dtype = dtype_from_name("float32");
    for (std::size_t i = 0; i < count; ++i) table_.add({tensor_name(i)}, Kind::kStateDict, dtype, kShape);
    const std::vector<std::byte> zeros(kSmallTensorBytes);
    BytesFile file(bytes_);
    write(file, table_, MemorySource(std::vector<ConstBuffer>(count, {zeros.data(), zeros.size()})));
  }

  const TensorTable& table() const { return table_; }
  std::unique_ptr<File> open() const { return std::make_unique<BytesFile>(bytes_); }

 private:
  TensorTable table_;
  const std::shared_ptr<std::vector<std::byte>> bytes_ = std::make_shared<std::vector<std::byte>>();
};

}  // namespace tzmark::bench
