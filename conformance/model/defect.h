// A defect of a file as data: which part of which rule, in which structure and field, what is there and what should be.
// Readers of defects compare these; only reports need the sentence.
//
// Thread-safety: pure functions and values. Names of structures and fields are those of the tables, which are constant.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tzmark::conformance::model {

// A structure of the file, with its number where there are several: "tensor header 2, hash 0".
struct StructureId {
  std::string_view name = {};
  std::optional<std::size_t> tensor = {};
  std::string_view item = {};  // of a list in the structure; empty: the structure itself
  std::size_t number = 0;      // of that item

  std::string label() const;
  std::string kind() const;  // the label without numbers: "tensor header, hash"
};

// What is no value of the file, in words: "at least 1".
struct Words {
  std::string text;
};

using Numbers = std::vector<std::uint64_t>;

// What a field has or should have. A string has the bytes of the file.
using Content = std::variant<std::monostate, std::uint64_t, std::int64_t, Numbers, std::string, Words>;

// The numbers of a content, none of text. What is below 0 wraps.
Numbers numbers_of(const Content& content);

// The part of a rule that is broken. What it says of field, got and wanted is in defect.cc.
enum class Clause {
  kStated,         // what is wanted of the whole structure is said in words
  kValue,          // the field is none of the values that it may have
  kIndexValue,     // the field differs from that of the index entry
  kNominalSize,    // the size differs from what shape and dtype give
  kHeaderEnd,      // the offset differs from where the header ends
  kRecordEnd,      // the offset differs from where the record before ends
  kCut,            // the field runs past the end of its structure
  kLengthCut,      // the bytes that the field counts do
  kRest,           // bytes belong to no field
  kNoHeaderPlace,  // no header can be at the offset
  kOutside,        // the data is not inside the file
  kOverlap,        // the offset leads to bytes of another tensor
  kNotUtf8,
  kNoArray,               // a structured name is no JSON array
  kNoElement,             // the array has what is no element of a path
  kNewline,               // the array has a newline byte
  kEmptyPath,             // the array is empty
  kPathKind,              // a structured name of a tensor of another kind than 2
  kSamePath,              // got is the number of the other tensor
  kPathInside,            // in the same way
  kPathMixed,             // in the same way
  kNoType,                // the dtype is none
  kNoByteOrder,           // the dtype lacks a byte order
  kOpaqueHead,            // a dtype with a name does not begin as one
  kOpaqueName,            // a dtype has no name or several
  kUnknownName,           // the name is none of torch's opaque types
  kElementSize,           // elements of that type have another size
  kDerivation,            // opslimit or memlimit is beyond its limit
  kMac,                   // got is the place of the message in the data
  kWriterLayout,          // the content needs another layout than the one that the file has
  kHigherLayout,          // in the same way, but a caller may have asked for the layout
  kUsedBefore,            // a value that must not repeat was in the file of another case, got
  kTrailing,              // bytes after the terminator
  kEmptyTensor,           // the data_offset of a tensor without data is not between the two that are wanted
  kEmptyTensorInSegment,  // nor a multiple of 8 of the data segment
};

struct Defect {
  enum class Kind {
    kStructure,       // a reader rejects the file
    kAuthentication,  // a reader rejects the file with this secret, or without one
    kIntegrity,       // a reader that verifies rejects the file
    kWriter,          // a reader accepts the file, and a writer must not write it
  };

  std::string rule = {};  // an id of FORMAT.md
  std::optional<std::uint64_t> offset = {};
  Clause clause = Clause::kStated;
  StructureId structure = {};
  std::string_view field = {};
  Content got = {};
  Content wanted = {};
  Kind kind = Kind::kStructure;
};

// "index entry 0: kind is 3 and should be 0, 1 or 2"
std::string sentence_of(const Defect& defect);

// Whether a reader that only decodes, or one that also verifies, rejects a file with this defect.
bool refuses_decode(const Defect& defect);
bool refuses_verify(const Defect& defect);

}  // namespace tzmark::conformance::model
