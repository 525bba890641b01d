// Every byte of a file with the field that it belongs to.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "tzmark/io.h"

namespace tzmark::cli {

struct Annotation {
  std::uint64_t begin = 0, length = 0;
  std::string field;  // "tensor 2 header: dtype"
  std::string value;  // for people; empty if the bytes speak for themselves
};

// Walks the structures in the order of the file and names each field. Annotations follow each other without a gap, from
// the first byte to the last. Where the walk cannot go on, the rest of the file is one annotation, and the error is
// thrown after it.
void annotate(File& file, const std::function<void(const Annotation&)>& visit);

// The same as lines of text: offset, bytes in hex, field, value. Data of more than a few lines is folded.
void print_annotated(File& file, bool unfolded, const std::function<void(std::string_view)>& print);

}  // namespace tzmark::cli
