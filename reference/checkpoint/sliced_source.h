// Tensors that are joined from parts of other tensors, or cut out of them, while they are read.
//
// A row is one index of the dimensions before the one that is joined or cut: joining two shards puts a row of the first
// before a row of the second; cutting takes a part of every row. Reading is thread-safe, adding is not.
// REQUIRES: the sources outlive this object.
#pragma once

#include <cstdint>
#include <vector>

#include "tzmark/reader.h"

namespace tzmark::checkpoint {

struct SlicedTensor {
  struct Part {
    const TensorSource* source = nullptr;
    std::size_t tensor = 0;
    std::uint64_t source_row_bytes = 0;  // of which row_bytes are taken after skip_bytes
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

// Returns whether two tensors have the same bytes. Reads them in pieces.
bool same_bytes(const TensorSource& a, std::size_t a_tensor, const TensorSource& b, std::size_t b_tensor,
                std::uint64_t bytes);

}  // namespace tzmark::checkpoint
