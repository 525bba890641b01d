// Detached data: a v5-segments file whose data segment is a separate file. An extension by tzmark; FORMAT.md, appendix
// A, specifies both files.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tzmark/format.h"
#include "tzmark/io.h"

namespace tzmark {

#pragma pack(push, 1)
struct DetachedDataHeaderWire {
  unsigned char magic[5];  // |TZD|
  std::uint32_t version;   // 1
  std::uint64_t pair_number;
  unsigned char unused[4079];
};
#pragma pack(pop)
static_assert(sizeof(DetachedDataHeaderWire) == 4096);
static_assert(offsetof(DetachedDataHeaderWire, pair_number) == 9);

// Throws TZX-SPL-001 if data_file does not contain detached data, and TZX-SPL-002 if it belongs to another file.
void check_detached_data(const FileHeader& header, File& data_file);

void write_detached_data_header(std::uint64_t pair_number, File& data_file);

}  // namespace tzmark
