// Parts of tensors, read without the rest. Knows nothing of Python.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "blocking.h"
#include "tzmark/buffer.h"
#include "tzmark/reader.h"

namespace tzmark::py {

// The elements begin[i] to end[i] - 1 of each dimension i of a tensor.
struct Slice {
  std::size_t tensor = 0;
  std::vector<std::uint64_t> begin, end;
  bool is_whole = false;  // all of them, which a tensor of elements smaller than a byte allows, too
};

// The contiguous parts of a slice, in order.
class Runs {
 public:
  // shape: of the whole tensor. REQUIRES: begin[i] <= end[i] <= shape[i].
  Runs(std::span<const std::uint64_t> shape, const Slice& slice, std::uint64_t item_bytes);

  std::uint64_t length() const { return length_; }  // of each, in bytes
  bool is_done() const { return is_done_; }
  std::uint64_t offset() const;  // of the first byte in the tensor
  void advance();

 private:
  std::vector<std::uint64_t> begin_, end_, at_, strides_;
  std::size_t outer_ = 0;  // dimensions outside of a run
  std::uint64_t length_ = 0;
  bool is_done_ = false;
};

// A slice and the memory that it goes to, of the size of its runs.
struct SlicedTensor {
  std::size_t tensor = 0;
  Runs runs;
  MutableBuffer out;
};

// Reads them on several threads, and counts their bytes on the meter. Short gaps between runs are read, too. MACs are
// checked; hashes, which cover a whole tensor, are not.
void read_slices(const TensorSource& source, std::vector<SlicedTensor> slices, unsigned threads, Meter& meter);

}  // namespace tzmark::py
