// One reading of a file in one layout: steps 3 to 10 of FORMAT.md 11.1, which need neither keys nor data.
//
// Thread-safety: pure functions and values. A reading refers to the file and to the set of rules to leave out.
#pragma once

#include <string>
#include <vector>

#include "model/dtypes.h"
#include "model/notes.h"
#include "model/tables.h"
#include "model/tensor_names.h"

namespace tzmark::conformance::model {

struct Tensor {
  ParsedStructure entry;
  std::optional<ParsedStructure> header;  // nothing if it could not be reached
  ParsedName name;
  Dtype dtype;
  std::vector<std::uint64_t> shape;
  std::uint64_t data_length = 0;
  bool meta = false;
  std::optional<std::uint64_t> header_offset;  // in the file; nothing if it is out of range
  std::optional<std::uint64_t> data_offset;    // in the same way
};

struct Reading {
  Reading(const Layout& in, bool is_encrypted, const std::set<std::string>& without)
      : layout(&in), encrypted(is_encrypted), notes(without) {}

  const Layout* layout;
  bool encrypted;
  Notes notes;
  std::optional<ParsedStructure> layout_section;  // of v5-segments
  std::uint64_t index_begin = 0;
  std::uint64_t index_end = 0;
  std::vector<Tensor> tensors;
  bool first_entry_fits = false;
  bool index_fits = false;                     // up to and including step 7
  std::optional<std::uint64_t> terminator_at;  // end of the last record, if known

  std::string label(std::string_view structure, std::size_t tensor) const;
};

// REQUIRES: the file header is whole.
Reading read_as(Bytes file, const ParsedStructure& file_header, const Layout& layout,
                const std::set<std::string>& without);

// The parts of read_as. Each returns whether the next one can continue.

// Steps 3 to 6 (index.cc).
bool read_index(Bytes file, const Scope& settings, std::uint64_t tensor_count, Reading& reading);

// Steps 7 to 10 (placement.cc).
void check_offsets(Bytes file, Reading& reading);
void read_headers(Bytes file, const Scope& settings, Reading& reading);

// The layout of a file of data version 5 by FORMAT.md 14.1, read.
Reading read_version_5(Bytes file, const ParsedStructure& file_header, const std::set<std::string>& without);

}  // namespace tzmark::conformance::model
