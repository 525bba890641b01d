// Tensors that are put together from parts of other tensors, row by row, while they are read.
//
// A row is what lies behind the dimension that is joined or cut: joining two shards along it puts a row of the first
// before a row of the second; cutting takes some bytes of every row. Reading is thread-safe, adding is not. The sources
// have to outlive this one.
#pragma once

#include <cstdint>
#include <vector>

#include "tzmark/reader.h"

namespace tzmark::checkpoint {

struct SlicedTensor {
  struct Part {
    const TensorSource* source = nullptr;
    std::size_t tensor = 0;
    std::uint64_t source_row_bytes = 0;  // of which this many are taken, behind so many others
    std::uint64_t row_bytes = 0;
    std::uint64_t skip_bytes = 0;
  };
  std::vector<Part> parts;

  std::uint64_t row_bytes() const;
};

class SlicedSource final : public TensorSource {
 public:
  void add(SlicedTensor tensor) { tensors_.push_back(std::move(tensor)); }
  std::unique_ptr<TensorStream> open(std::size_t tensor) const override;

 private:
  std::vector<SlicedTensor> tensors_;
};

// Whether both hold the same bytes. Reads them in pieces.
bool same_bytes(const TensorSource& a, std::size_t a_tensor, const TensorSource& b, std::size_t b_tensor,
                std::uint64_t bytes);

}  // namespace tzmark::checkpoint
