// One reading of a file in one layout: steps 3 to 10 of FORMAT.md 11.1, which need neither keys nor data.
//
// A reading keeps where the parts of the file lie, and parses a part again when its fields are needed, because all
// fields take many times the memory of the file.
//
// Thread-safety: pure functions and values. A reading refers to the file and to the mistakes of the reader.
#pragma once

#include <string>
#include <vector>

#include "model/dtypes.h"
#include "model/notes.h"
#include "model/tables.h"
#include "model/tensor_names.h"

namespace tzmark::conformance::model {

// Bytes to parse by a table.
struct Part {
  const Structure* structure;
  std::uint64_t begin;
  std::uint64_t end;
  std::optional<std::size_t> tensor = {};  // that the part belongs to
};

// Where the parts of a tensor lie.
struct Place {
  std::uint64_t entry_begin = 0;
  std::uint64_t data_length = 0;
  std::optional<std::uint64_t> header_offset = {};  // in the file; nothing if it is out of range
  std::optional<std::uint64_t> data_offset = {};    // in the same way
  std::optional<std::uint64_t> header_end = {};     // nothing if the header could not be reached
  bool header_is_whole = false;
};

struct Tensor : Place {
  ParsedStructure entry;
  std::optional<ParsedStructure> header;  // nothing if it could not be reached
  ParsedName name;
  Dtype dtype;
  std::vector<std::uint64_t> shape;
  bool meta = false;
};

struct Reading {
  Reading(Bytes in, const ParsedStructure& header, const Layout& as, const Mistakes& mistakes)
      : file(in), file_header(header), layout(&as), notes(mistakes, as.name), parts{{&kFileHeader, 0, header.end}} {}

  Bytes file;
  ParsedStructure file_header;
  const Layout* layout;
  bool encrypted = false;
  ParsedStructure settings;
  Notes notes;
  std::vector<Part> parts;                        // as far as they were reached, in the order of the reading
  std::optional<ParsedStructure> layout_section;  // of v5-segments
  std::uint64_t index_begin = 0;
  std::uint64_t index_end = 0;
  std::vector<Place> places;    // of the tensors whose entries are whole
  std::vector<Tensor> tensors;  // the same tensors, once parse_tensors was called
  bool first_entry_fits = false;
  bool index_fits = false;                     // up to and including step 7
  std::optional<std::uint64_t> terminator_at;  // end of the last record, if known

  ParsedStructure parse(const Part& part, Notes& found) const;

  // Parses a part for the first time, and records it.
  ParsedStructure read(const Part& part, Notes& found);

  // Parses the entry of places[tensor] once more.
  ParsedStructure entry(std::size_t tensor) const;

  // Calls `visit` for each field in the order of their offsets, and of the reading where these are equal. Holds the
  // fields of one part at a time if parts do not overlap.
  void visit_fields(const FieldVisitor& visit) const;
};

// REQUIRES: the file header is whole.
Reading read_as(Bytes file, const ParsedStructure& file_header, const Layout& layout, const Mistakes& mistakes);

// The parts of read_as. Each returns whether the next one can continue.

// Steps 3 to 6 (index.cc).
bool read_index(std::uint64_t tensor_count, Reading& reading);

// Steps 7 to 10 (placement.cc).
void check_offsets(Reading& reading);
void read_headers(Reading& reading);

// Fills reading.tensors (index.cc).
void parse_tensors(Reading& reading);

// The layout of a file of data version 5 by FORMAT.md 14.1, read.
Reading read_version_5(Bytes file, const ParsedStructure& file_header, const Mistakes& mistakes);

}  // namespace tzmark::conformance::model
