// The wire structures of the format as tables, one row per field, as in FORMAT.md.
//
// What the tables ask of the structures around them: a record of settings (kSettings) is the outermost, and a tensor
// header and its data lie within the index entry that leads to them.
//
// Thread-safety: constant.
#pragma once

#include "model/walk.h"

namespace tzmark::conformance::model {

struct Layout {
  std::string_view name;
  std::uint64_t data_version;
  bool headers_first;                // all headers before all data
  bool segments;                     // offsets are relative to segments
  bool long_dims;                    // entries have a version, and hold dimensions of 2^32 and more
  std::uint8_t flag;                 // the bit in the first byte of feature flags that marks it; 0: none does
  bool opaque_dtypes, meta_tensors;  // what it can hold
  bool may_be_encrypted, must_be_encrypted;
};

// The released ones by data version first; of those that can hold something, the first is what writers choose.
const std::vector<Layout>& layouts();

// The bits in the first byte of feature flags that mark layouts of a data version.
std::uint8_t layout_flags(std::uint64_t data_version);

// What the content of a file asks of its layout.
struct Needs {
  bool long_dims = false, opaque_dtypes = false, meta_tensors = false, encryption = false;
};
const Layout& lowest_layout(const Needs& needs);

// REQUIRES: a layout has that name.
const Layout& layout_named(std::string_view name);

// The first layout of a data version; for an unknown version, the layout that a careless reader would use.
const Layout& layout_of_version(std::uint64_t data_version);

// Names of the settings, which are values of the outermost record.
inline constexpr std::string_view kFileSize = "size of the file";
inline constexpr std::string_view kEncrypted = "encrypted";
inline constexpr std::string_view kLongDims = "long dims";

extern const Structure kFileHeader;
extern const Structure kLayoutSection;
extern const Structure kIndexLength;
extern const Structure kIndexEntry;
extern const Structure kIndexRoom;  // after the last entry
extern const Structure kTensorHeader;
extern const Structure kTerminator;
extern const Structure kTensorData;

// Structures inside a tensor header, to find their records by.
extern const Structure kHashList;
extern const Structure kHash;
extern const Structure kCryptBlock;
extern const Structure kCryptChunk;

// The name of the number that a CRC32 is, in its tensor header.
inline constexpr std::string_view kCrc32Field = "CRC32";

// The numbers of the type fields.
inline constexpr std::uint64_t kHashCrc32 = 0;
inline constexpr std::uint64_t kHashSha256 = 1;
inline constexpr std::uint64_t kChunkKeyDerivation = 1;
inline constexpr std::uint64_t kChunkParallel = 2;
inline constexpr std::uint64_t kChunkSequential = 3;

// "parameter", "buffer" or "state_dict"; empty for other numbers.
std::string_view kind_name(std::uint64_t kind);

}  // namespace tzmark::conformance::model
