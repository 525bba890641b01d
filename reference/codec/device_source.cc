// Tensors in GPU memory as streams for a writer.
#include "codec/stream_range.h"
#include "tzmark/device.h"

namespace tzmark {
namespace {

class DeviceStream final : public TensorStream {
 public:
  explicit DeviceStream(ConstBuffer tensor) : tensor_(tensor) {}

  void read(std::uint64_t offset, MutableBuffer out) override {
    check_range(offset, out.size, tensor_.size);
    copy_to_host(tensor_.sub(offset, out.size), out.bytes());
  }
  ConstBuffer in_device_memory() const override { return tensor_; }

 private:
  const ConstBuffer tensor_;
};

}  // namespace

std::unique_ptr<TensorStream> DeviceSource::open(std::size_t tensor) const {
  return std::make_unique<DeviceStream>(tensors_.at(tensor));
}

}  // namespace tzmark
