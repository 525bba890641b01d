// Element types: the strings that files store, and their meaning.
//
// A wire dtype is numpy's array-interface type string ("<f4"). For types that numpy lacks it is opaque: a void type of
// the element's size, one NUL byte, and torch's name ("<V2\0torch.bfloat16"). Files of the 1.x releases also contain
// foreign numpy types (strings, dates), which are listed and verified but have no torch name.
//
// Thread-safety: all functions are thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tzmark {

struct Dtype {
  std::string wire;              // as stored
  std::string name;              // torch's name without "torch."; empty for a foreign type
  std::uint64_t item_bytes = 0;  // never 0
  bool big_endian = false;
  bool opaque = false;

  bool foreign() const { return name.empty(); }

  friend bool operator==(const Dtype&, const Dtype&) = default;
};

// Parses a wire dtype. Throws Error with a TZR-DTY rule and the given file offset if the format has no such dtype.
Dtype parse_dtype(std::string_view wire, std::uint64_t file_offset = 0);

// Returns the dtype of torch's name ("float32", "bfloat16"), little-endian, with the wire dtype that 2.x writers store.
// Throws kUsage if there is no such dtype.
Dtype dtype_from_name(std::string_view torch_name);

}  // namespace tzmark
