// Interprets the tables: reads one structure of a file, field by field, and notes its defects and fields.
//
// A structure is a list of rows. Amounts, conditions and checks are functions of what was read before, in the structure
// itself and in those around it.
//
// Thread-safety: pure functions and values. Records and frames refer to tables and to the file, which must outlive
// them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/notes.h"

namespace tzmark::conformance::model {

enum class Type { kU8, kU16, kU32, kU64, kI32, kI64, kBytes, kStructure };

// A field as it was found, its numbers as the reader takes them. A row of several numbers is one value.
struct Value {
  std::string_view name;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t number = 0;                 // of a row of one number
  std::vector<std::uint64_t> numbers = {};  // of a row of several
};

struct Structure;

// A structure as it was found.
struct ParsedStructure {
  const Structure* structure = nullptr;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool whole = false;  // every field fitted
  std::vector<Value> values;
  std::vector<ParsedStructure> children;

  const Value* find(std::string_view name) const;
};

// The fields that a row may use while its structure is read: those so far, and those of the enclosing structures.
struct Scope {
  Bytes file;
  const ParsedStructure* record = nullptr;
  const Scope* outer = nullptr;
  std::uint64_t rest = 0;  // bytes of the structure that are not read yet

  // Throw std::logic_error if no field in scope has that name, which is a fault of a table.
  const Value& value(std::string_view name) const;
  std::uint64_t number(std::string_view name) const { return value(name).number; }
  bool has(std::string_view name) const;
  Bytes bytes(const Value& value) const { return file.subspan(value.offset, value.size); }
};

using Number = std::uint64_t (*)(const Scope&);
using Test = bool (*)(const Scope&);

struct FieldCheck {
  std::string_view rule;
  std::string_view wanted;  // ends the sentence "NAME is VALUE and should be ..."; of a whole structure a sentence
  Test right;
  bool as_outer = false;  // the field of that name in the structures around has to have the same bytes
};

struct FieldRow {
  std::string_view name;
  Type type = Type::kU8;
  Number amount = nullptr;  // of kBytes how many bytes, of others how many in a row; none means one
  Number room = nullptr;    // of kStructure: bytes that it has to fill; none means up to the end of what is around it
  const Structure* structure = nullptr;
  Test when = nullptr;
  std::vector<FieldCheck> checks = {};
  std::string (*show)(const Scope&, const Value&) = nullptr;
  Content (*content)(const Scope&, const Value&) = nullptr;  // what a defect has of it; none means its type tells
};

struct Structure {
  std::string_view name;            // empty: its fields count as those of the structure around
  std::string_view overrun_rule;    // broken by a field that does not fit
  std::string_view remainder_rule;  // broken by bytes after the last field; empty: bytes are allowed there
  std::vector<FieldRow> rows;
  std::vector<FieldCheck> checks = {};
};

// Walks `structure` through the bytes from `begin` to `end` of the file. Numbers never make it read beyond `end`, and
// it stops at the first field that does not fit. REQUIRES: begin <= end <= file.size().
ParsedStructure walk(Bytes file, const Structure& structure, std::uint64_t begin, std::uint64_t end, const Scope* outer,
                     const StructureId& id, Notes& notes);

}  // namespace tzmark::conformance::model
