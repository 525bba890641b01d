// A run of small tensors that are read or written together, and where their bytes lie in one buffer.
//
// Where data follows each header, a run is one stretch of the file. In the headers-first layouts it is two: the
// headers, and the data.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tzmark/format.h"

namespace tzmark {

class Run {
 public:
  struct Stretch {
    std::uint64_t begin = 0, end = 0;  // in the file
    std::size_t bytes() const { return static_cast<std::size_t>(end - begin); }
  };

  Run() = default;
  explicit Run(Layout layout) : headers_first_(headers_first(layout)) {}

  // Adds the tensor that is next in the order of the headers, if all of the run then has at most limit bytes and can be
  // moved without going back. REQUIRES: header_offset is not before the end of the tensor that was added last.
  bool add(std::uint64_t header_offset, std::uint64_t header_end, std::uint64_t data_offset, std::uint64_t data_length,
           std::size_t limit) {
    Stretch front = front_;
    Stretch data = data_;
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

  const Stretch& front() const { return front_; }  // headers, and their data where that follows them
  const Stretch& data() const { return data_; }    // in the buffer it lies behind the front; empty if it is part of it
  std::size_t bytes() const { return front_.bytes() + data_.bytes(); }

  // Where in the buffer headers and data are. data_at holds for tensors with data only.
  std::size_t header_at(std::uint64_t offset) const { return static_cast<std::size_t>(offset - front_.begin); }
  std::size_t data_at(std::uint64_t offset) const {
    return headers_first_ ? front_.bytes() + static_cast<std::size_t>(offset - data_.begin) : header_at(offset);
  }

 private:
  bool headers_first_ = false;
  Stretch front_, data_;
};

}  // namespace tzmark
