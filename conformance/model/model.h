// The suite's own model of a .tensors file: the field of every byte, all defects, and the content.
// It is independent of the reference codec and shares no code with it. The wire structures are tables (tables.h), one
// interpreter walks them (walk.h), and it continues after a defect.
//
// Thread-safety: pure functions and values. Descriptions own all that is in them; outlines do not.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/defect.h"

namespace tzmark::conformance::model {

using Json = nlohmann::ordered_json;
using Bytes = std::span<const std::byte>;

// The secret of an encrypted file: a key of 32 bytes, a passphrase, or nothing.
struct Secret {
  std::optional<std::array<std::uint8_t, 32>> key;
  std::optional<std::string> passphrase;
};

// A field for display: "index entry 2", "name", "'w'". A row of numbers is one field with an empty value; annotate()
// splits it.
struct Field {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::string structure;
  std::string name;
  std::string value;
  std::uint64_t numbers = 0;  // not 0: a row of so many numbers of the same size
};

struct Description {
  std::string layout;           // in which the file was read; empty if it has no data version
  std::vector<Field> fields;    // by offset; without gap or overlap if no defect is one of structure
  std::vector<Defect> defects;  // in the order in which a careful reader meets them; those of writers last
  Json document;                // canonical JSON; null if there is a defect of structure or authentication
};

// Whether a reader ignores a defect that it meets while it reads the file in this layout; in the file header there is
// no layout yet. A reading may meet a defect several times, and one that is given up meets defects too
// (FORMAT.md 14.1).
using Ignores = std::function<bool(const Defect&, std::string_view layout)>;

// A number in a file; each number of a row has the name of the row.
struct NumberField {
  std::string_view layout;  // empty in the file header
  StructureId structure;
  std::string_view field;
  std::uint64_t size = 0;
};

// What a reader takes a number for.
using Misreads = std::function<std::uint64_t(const NumberField&, std::uint64_t number)>;

// What a key is derived from, besides the passphrase.
struct KeyDerivation {
  std::uint64_t opslimit = 0;
  std::uint64_t memlimit = 0;
  std::int32_t alg = 0;
  std::string salt;

  auto operator<=>(const KeyDerivation&) const = default;
};

// What of a derivation a reader keeps its key under, to derive it once.
using KeepsKeyUnder = std::function<KeyDerivation(KeyDerivation)>;

// What a reader does wrong.
struct Mistakes {
  Ignores ignores;
  Misreads misreads = nullptr;              // nothing: takes every number for what it is
  KeepsKeyUnder keeps_key_under = nullptr;  // nothing: keeps it under all of the derivation
};

// Leaves out what the reader ignores, as if it had no such checks, and continues with numbers as the reader takes them.
// Fields are shown as they are in the file. If such a check stops the reading, the document
// holds what was read until then. Throws std::runtime_error if there is no memory to derive a key.
Description describe(Bytes file, const Secret& secret, const Mistakes& mistakes);
Description describe(Bytes file, const Secret& secret, const Ignores& ignores);

// Ignores the rules in `without`. A caller that asked for a layout ignores TZR-HDR-006.
Description describe(Bytes file, const Secret& secret, const std::set<std::string>& without = {});

using FieldVisitor = std::function<void(const Field&)>;

// The structure of a file, to which it refers.
struct Outline {
  std::vector<Defect> defects;
  std::function<void(const FieldVisitor&)> visit_fields;  // by offset; bytes that belong to no field have none here
};

// Reads no data beyond a few values, needs no secret, and keeps no fields, so that it serves files of any size.
Outline describe_structure(Bytes file, const std::set<std::string>& without = {});

// A row of annotated bytes: those of one field, abbreviated if they are long.
struct Annotated {
  std::uint64_t offset = 0;
  std::string hex;
  std::string field;  // "index entry 2: name"
  std::string value;
  bool marked = false;  // holds the requested byte
};

// The field that holds the byte at `offset`, and fields_around fields before and after it. Each number of a row is a
// field here: "dim[0]". An offset beyond the file marks nothing.
std::vector<Annotated> annotate(const Description& description, Bytes file, std::uint64_t offset,
                                std::size_t fields_around);

}  // namespace tzmark::conformance::model
