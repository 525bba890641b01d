// A safetensors file as the JSON of its header and its data, which can be changed and written as a file again.
// The JSON is a tree in which every byte has its place, also where it is none: a missing comma, a bracket that is not
// closed and white space are kept. A draft does not hold the length of the header: write() computes it, and a file
// that states another keeps the difference.
//
// Thread-safety: values and pure functions. Slices refer to bytes of others; see draft.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mutation/draft.h"

namespace tzmark::conformance::mutation {

// Of the length of the header, before it.
inline constexpr std::size_t kSafetensorsLengthBytes = 8;

struct JsonItem;

struct JsonValue {
  enum class Kind : std::uint8_t { kScalar, kObject, kArray };
  Kind kind = Kind::kScalar;
  std::string scalar = {};      // as written: a string with its quotes; may be empty
  std::vector<JsonItem> items;  // of an object or an array
  std::string before_end = {};  // white space of an empty one
  bool is_closed = true;
};

// A member of an object, or an element of an array.
struct JsonItem {
  std::string before_key = {};
  std::string key = {};  // as written, with its quotes
  std::string before_colon = {};
  bool has_colon = false;  // else it has no key
  std::string before = {};
  JsonValue value = {};
  std::string after = {};
  bool has_comma = false;
};

struct SafetensorsDraft {
  std::uint64_t length_difference = 0;  // of the stated length from the right one, modulo 2^64
  std::string lead = {};                // before the object
  JsonValue root = {};
  std::string tail = {};  // behind the object
  Slice data = {};
};

// Nothing if the file is too short for a length, or its JSON nests too deep or has more values than memory is good for.
// write() of the draft restores the file.
std::optional<SafetensorsDraft> take_apart_safetensors(model::Bytes file);
std::vector<std::byte> write(const SafetensorsDraft& draft);

std::string write(const JsonValue& value);
// Any text as one value.
JsonValue scalar(std::string text);
// Any text is a value here.
JsonValue split_json(std::string_view text);
// In quotation marks, with the escapes that JSON asks for and no others.
std::string in_json(std::string_view text);
JsonItem member(std::string_view key, std::string_view value);
JsonItem element(std::string_view value);
// Sets all commas but that of the last item.
void separate(std::vector<JsonItem>& items);

// The places in root.items of the tensors: members with an object that are not __metadata__.
std::vector<std::size_t> tensor_places(const SafetensorsDraft& draft);
// The value of a member by its usual spelling; null if there is none.
JsonValue* find(JsonValue& object, std::string_view key);
const JsonValue* find(const JsonValue& object, std::string_view key);
// Of an array of integers in 64 bits; nothing for any other value.
std::optional<std::vector<std::uint64_t>> numbers_in(const JsonValue* value);
JsonValue array_of(const std::vector<std::uint64_t>& numbers);

struct DataRange {
  std::uint64_t begin = 0, end = 0;
};
// The data_offsets of a tensor, if they are two.
std::optional<DataRange> data_range(const JsonItem& tensor);

// The name in a dtype's string; empty if it is none.
std::string dtype_name(const JsonItem& tensor);
// What shape and dtype give, in whole bytes; nothing if that cannot be said or is more than a GiB.
std::optional<std::uint64_t> size_bytes_of(const std::string& dtype, const std::vector<std::uint64_t>& shape);

// Replaces bytes of the data, and moves the offsets of what comes behind them. REQUIRES: begin <= end, which is inside.
void replace_data(SafetensorsDraft& draft, DataRange range, std::vector<std::byte> bytes);

// Another shape and dtype for the tensor at a place.
struct NewShape {
  std::size_t place = 0;
  std::vector<std::uint64_t> shape = {};
  std::string dtype = {};
};

// Gives tensors other shapes, all at once, since the data is copied. It is cut, or filled with zeros. If the size of a
// tensor's data did not match, the difference stays. Leaves out tensors whose old or new size cannot be said, and those
// that share data with others or are not inside of it.
void reshape(SafetensorsDraft& draft, const std::vector<NewShape>& shapes);
// With their data, if no other tensor has a part of it. REQUIRES: the places ascend.
void erase_tensors(SafetensorsDraft& draft, const std::vector<std::size_t>& places);

}  // namespace tzmark::conformance::mutation
