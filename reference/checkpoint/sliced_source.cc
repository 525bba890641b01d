// Streams over parts of streams.
#include "checkpoint/sliced_source.h"

#include <algorithm>

namespace tzmark::checkpoint {
namespace {

constexpr std::size_t kComparedBytes = 1 << 20;

class SlicedStream final : public TensorStream {
 public:
  explicit SlicedStream(const SlicedTensor& tensor) : tensor_(tensor), row_bytes_(tensor.row_bytes()) {
    for (const SlicedTensor::Part& part : tensor.parts) streams_.push_back(part.source->open(part.tensor));
  }

  void read(std::uint64_t offset, MutableBuffer out) override {
    for (std::size_t done = 0; done < out.size;) {
      const std::uint64_t row = (offset + done) / row_bytes_;
      std::uint64_t in_part = (offset + done) % row_bytes_;
      std::size_t i = 0;
      while (in_part >= tensor_.parts[i].row_bytes) in_part -= tensor_.parts[i++].row_bytes;
      const SlicedTensor::Part& part = tensor_.parts[i];
      const auto length = static_cast<std::size_t>(std::min<std::uint64_t>(part.row_bytes - in_part, out.size - done));
      streams_[i]->read(row * part.source_row_bytes + part.skip_bytes + in_part, out.sub(done, length));
      done += length;
    }
  }

 private:
  const SlicedTensor& tensor_;
  const std::uint64_t row_bytes_;
  std::vector<std::unique_ptr<TensorStream>> streams_;
};

}  // namespace

std::uint64_t SlicedTensor::row_bytes() const {
  std::uint64_t bytes = 0;
  for (const Part& part : parts) bytes += part.row_bytes;
  return bytes;
}

std::unique_ptr<TensorStream> SlicedSource::open(std::size_t tensor) const {
  return std::make_unique<SlicedStream>(tensors_[tensor]);
}

bool same_bytes(const TensorSource& a, std::size_t a_tensor, const TensorSource& b, std::size_t b_tensor,
                std::uint64_t bytes) {
  const auto a_stream = a.open(a_tensor);
  const auto b_stream = b.open(b_tensor);
  std::vector<std::byte> a_bytes(static_cast<std::size_t>(std::min<std::uint64_t>(bytes, kComparedBytes)));
  std::vector<std::byte> b_bytes(a_bytes.size());
  for (std::uint64_t at = 0; at < bytes; at += a_bytes.size()) {
    const auto length = static_cast<std::size_t>(std::min<std::uint64_t>(bytes - at, a_bytes.size()));
    a_stream->read(at, std::span(a_bytes).first(length));
    b_stream->read(at, std::span(b_bytes).first(length));
    if (!std::equal(a_bytes.begin(), a_bytes.begin() + static_cast<std::ptrdiff_t>(length), b_bytes.begin())) {
      return false;
    }
  }
  return true;
}

}  // namespace tzmark::checkpoint
