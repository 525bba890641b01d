// The suite's own view of a .tensors file: every byte with its field, everything that is wrong, and the content.
//
// This is the second opinion beside the reference codec, and shares no code with it. The wire structures are tables
// (tables.h), one interpreter walks them (walk.h), and it does not stop at the first thing that is wrong.
//
// Thread-safety: pure functions and values. Descriptions own all that is in them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace tzmark::conformance::model {

using Json = nlohmann::ordered_json;
using Bytes = std::span<const std::byte>;

// What opens an encrypted file: a key of 32 bytes, a passphrase, or nothing.
struct Secret {
  std::optional<std::array<std::uint8_t, 32>> key;
  std::optional<std::string> passphrase;
};

// Bytes that belong together, for a person: "index entry 2", "name", "'w'". A row of numbers is one field, however many
// there are, and its value is empty: annotate() takes it apart.
struct Field {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::string structure;
  std::string name;
  std::string value;
  std::uint64_t numbers = 0;  // not 0: a row of so many numbers of the same size
};

struct Defect {
  enum class Kind {
    kStructure,       // a reader refuses the file
    kAuthentication,  // a reader refuses the file with this secret, or without one
    kIntegrity,       // a reader that verifies refuses the file
    kWriter,          // a reader takes the file, and a writer may not write it
  };

  std::string rule;  // an id of FORMAT.md
  std::optional<std::uint64_t> offset;
  std::string message;
  Kind kind = Kind::kStructure;
};

struct Description {
  std::string layout;           // the one that the file was read in; empty if it has no data version
  std::vector<Field> fields;    // by offset; without gap or overlap if no defect is one of structure
  std::vector<Defect> defects;  // in the order in which a careful reader meets them; those of writers last
  Json document;                // canonical JSON; null if a defect of structure or authentication is there
};

// Defects of the rules in `without` are neither listed nor minded, as by a reader that leaves their checks out. Where
// such a check stops the reading, the document holds what was read until then. Who knows that a layout was asked for
// leaves TZR-HDR-006 out. Throws std::runtime_error where the machine fails and not the file: no memory for a key.
Description describe(Bytes file, const Secret& secret, const std::set<std::string>& without = {});

// Returns layout, fields and defects of structure, and no document. Reads no data beyond a few values, and needs no
// secret, so that it serves files of any size. Bytes that belong to no field have none here.
Description describe_structure(Bytes file, const std::set<std::string>& without = {});

// Whether a reader that only decodes, or one that verifies too, refuses what has this defect.
bool refuses_decode(const Defect& defect);
bool refuses_verify(const Defect& defect);

// One row of annotated bytes: those of one field, long ones folded.
struct Annotated {
  std::uint64_t offset = 0;
  std::string hex;
  std::string field;  // "index entry 2: name"
  std::string value;
  bool marked = false;  // holds the byte that was asked for
};

// The field that holds the byte at `offset`, and as many before and behind it. Of a row of numbers each is a field
// here: "dim[0]". An offset beyond the file marks nothing.
std::vector<Annotated> annotate(const Description& description, Bytes file, std::uint64_t offset,
                                std::size_t fields_around);

}  // namespace tzmark::conformance::model
