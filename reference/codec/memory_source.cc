// Tensors in host and GPU memory as streams for a writer.
#include <cstring>

#include "tzmark/device.h"
#include "tzmark/writer.h"

namespace tzmark {
namespace {

class MemoryStream final : public TensorStream {
 public:
  explicit MemoryStream(ConstBuffer tensor) : tensor_(tensor) {}

  void read(std::uint64_t offset, MutableBuffer out) override {
    check_range(offset, out.size, tensor_.size);
    const ConstBuffer range = tensor_.sub(offset, out.size);
    if (is_on_device()) {
      copy_to_host(range, out.bytes());
    } else if (out.size > 0) {
      std::memcpy(out.data, range.data, range.size);
    }
  }
  std::span<const std::byte> in_memory() const override {
    return is_on_device() ? std::span<const std::byte>() : tensor_.bytes();
  }
  ConstBuffer in_device_memory() const override { return is_on_device() ? tensor_ : ConstBuffer(); }

 private:
  bool is_on_device() const { return tensor_.kind == MemoryKind::kDevice; }

  const ConstBuffer tensor_;
};

}  // namespace

std::unique_ptr<TensorStream> DeviceSource::open(std::size_t tensor) const {
  return std::make_unique<MemoryStream>(tensors_.at(tensor));
}

std::unique_ptr<TensorStream> MemorySource::open(std::size_t tensor) const {
  return std::make_unique<MemoryStream>(data_[tensor]);
}

}  // namespace tzmark
