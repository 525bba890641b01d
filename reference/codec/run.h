// A run of small tensors that are read or written together, and the layout of their bytes in one buffer.
//
// A run is one range of the file if data follows each header. In the headers-first layouts it is two ranges: the
// headers and the data.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bytes/requires.h"
#include "tzmark/format.h"

namespace tzmark {

class Run {
 public:
  struct Range {
    std::uint64_t begin = 0, end = 0;  // offsets in the file
    std::size_t bytes() const { return static_cast<std::size_t>(end - begin); }
  };

  Run() = default;
  explicit Run(Layout layout) : headers_first_(headers_first(layout)) {}

  // Adds the next tensor in the order of the headers, if the run then has at most limit bytes and its data is in order.
  // REQUIRES: header_offset is not before the end of the previous tensor.
  bool add(std::uint64_t header_offset, std::uint64_t header_end, std::uint64_t data_offset, std::uint64_t data_length,
           std::size_t limit) {
    TZMARK_REQUIRES(header_offset >= front_.end);
    Range front = front_;
    Range data = data_;
    if (front.end == 0) front.begin = header_offset;
    front.end = headers_first_ ? header_end : data_offset + data_length;
    if (headers_first_ && data_length > 0) {
      if (data.end == 0) data.begin = data_offset;
      if (data_offset < data.end) return false;
      data.end = data_offset + data_length;
    }
    if (front.end - front.begin > limit || data.end - data.begin > limit - (front.end - front.begin)) return false;
    front_ = front;
    data_ = data;
    return true;
  }

  const Range& front() const { return front_; }  // headers, and their data if that follows them
  const Range& data() const { return data_; }    // after the front in the buffer; empty if data is part of the front
  std::size_t bytes() const { return front_.bytes() + data_.bytes(); }

  // Positions of headers and data in the buffer. data_at is valid for tensors with data only.
  std::size_t header_at(std::uint64_t offset) const { return static_cast<std::size_t>(offset - front_.begin); }
  std::size_t data_at(std::uint64_t offset) const {
    return headers_first_ ? front_.bytes() + static_cast<std::size_t>(offset - data_.begin) : header_at(offset);
  }

 private:
  bool headers_first_ = false;
  Range front_, data_;
};

}  // namespace tzmark
