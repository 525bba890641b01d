// The wire structures of the format as tables; see tables.h.
#include "model/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "model/dtypes.h"
#include "model/text.h"

namespace tzmark::conformance::model {
namespace {

// Functions that rows are made of.

template <std::size_t N>
struct Name {
  constexpr Name(const char (&text)[N]) { std::copy_n(text, N, value.begin()); }  // NOLINT: for use as a literal
  std::array<char, N> value{};
  constexpr std::string_view view() const { return {value.data(), N - 1}; }
};

template <Name name>
std::uint64_t number_of(const Scope& frame) {
  return frame.number(name.view());
}

template <std::uint64_t number>
std::uint64_t fixed(const Scope&) {
  return number;
}

// The rest without the bytes of the following fields.
template <std::uint64_t after_bytes>
std::uint64_t rest_but(const Scope& frame) {
  return frame.rest - std::min(frame.rest, after_bytes);
}

template <Name name, std::uint64_t... wanted>
bool is(const Scope& frame) {
  return ((frame.number(name.view()) == wanted) || ...);
}

template <Test test>
bool no(const Scope& frame) {
  return !test(frame);
}

// The field that was read last has the number, or the numbers, that the structure around gives it.
template <Name name>
bool equals_index(const Scope& frame) {
  const Value& here = *frame.record->find(name.view());
  const Value& there = frame.outer->value(name.view());
  return here.number == there.number && here.numbers == there.numbers;
}

// The same of bytes.
template <Name name>
bool as_in_index(const Scope& frame) {
  const Bytes here = frame.bytes(*frame.record->find(name.view()));
  const Bytes there = frame.bytes(frame.outer->value(name.view()));
  return std::equal(here.begin(), here.end(), there.begin(), there.end());
}

constexpr std::string_view kAsInIndex = "as in the index";

bool in_encrypted_file(const Scope& frame) { return frame.number(kEncrypted) != 0; }
bool has_entry_version(const Scope& frame) { return frame.number(kLongDims) != 0; }
bool has_wide_dims(const Scope& frame) { return frame.has("entry_version") && frame.number("entry_version") == 5; }

std::string show_text(const Scope& frame, const Value& value) { return in_quotes(text_of(frame.bytes(value))); }
std::string show_hex(const Scope& frame, const Value& value) { return hex_folded(frame.bytes(value)); }

std::string show_zeros(const Scope&, const Value&) { return "zeros"; }

std::string show_kind(const Scope&, const Value& value) {
  const std::string_view name = kind_name(value.number);
  return fmt::format("{}{}{}", value.number, name.empty() ? "" : ", ", name);
}

// File header.

bool magic_is_right(const Scope& frame) { return text_of(frame.bytes(frame.value("magic"))) == "|TZR|"; }

bool flags_are_known(const Scope& frame) {
  if (frame.number("data version") < 4) return true;
  const Bytes flags = frame.bytes(frame.value("feature flags"));
  constexpr unsigned kEncryption = 1;
  const unsigned known = kEncryption | layout_flags(frame.number("data version"));
  return (std::to_integer<unsigned>(flags[0]) & ~known) == 0 &&
         std::all_of(flags.begin() + 1, flags.end(), [](std::byte b) { return b == std::byte{0}; });
}

Numbers bits_of(const Scope& frame, const Value& value) {
  const Bytes flags = frame.bytes(value);
  Numbers bits;
  for (std::size_t bit = 0; bit < 8 * flags.size(); ++bit) {
    if (std::to_integer<unsigned>(flags[bit / 8]) >> bit % 8 & 1) bits.push_back(bit);
  }
  return bits;
}

std::string show_flags(const Scope& frame, const Value& value) {
  const Numbers bits = bits_of(frame, value);
  const bool unused = frame.number("data version") < 4;
  return (bits.empty() ? "none" : fmt::format("bits {}", fmt::join(bits, ", "))) +
         (unused ? "; unused below data version 4" : "");
}

// Layout section.

// In the order of the bounds, each is a u64, and so is the length of the section, which stands for where it ends.
bool in_order(const Scope& frame) {
  const std::vector<Value>& values = frame.record->values;
  const std::uint64_t bound = values.back().number;
  const auto before = std::find_if(values.rbegin() + 1, values.rend(), [](const Value& v) { return v.size == 8; });
  const bool first = before->name == "layout_length";
  return bound >= (first ? before->offset + before->size + before->number : before->number) &&
         bound <= frame.number(kFileSize);
}

const FieldCheck kInOrder = {"TZR-SEG-002", "neither below the bound before it nor beyond the file", in_order};

// Tensor header.

bool not_negative(const Scope& frame) { return frame.number("data_length") >> 63 == 0; }

std::string show_header_length(const Scope& frame, const Value& value) {
  return fmt::format("{}, to byte {}", value.number, frame.record->begin + value.number);
}

std::string show_hash_type(const Scope&, const Value& value) {
  if (value.number == kHashCrc32) return "0, CRC32";
  return value.number == kHashSha256 ? "1, SHA-256" : fmt::format("{}", value.number);
}

bool hash_size_fits_type(const Scope& frame) {
  const std::uint64_t type = frame.number("hash type");
  if (type != kHashCrc32 && type != kHashSha256) return true;
  return frame.number("hash size") == (type == kHashCrc32 ? 4 : 32);
}

std::string show_hash(const Scope& frame, const Value& value) {
  if (value.size == 4) return fmt::format("the number {:08X}", little_endian(frame.bytes(value)));
  return hex_folded(frame.bytes(value));
}

std::string show_data(const Scope& frame, const Value& value) {
  if (in_encrypted_file(frame)) return fmt::format("{} bytes, encrypted", value.size);
  return data_summary(text_of(frame.bytes(frame.value("dtype"))), frame.bytes(value));
}

// Crypt block.

bool chunk_size_is_right(const Scope& frame) {
  const std::uint64_t size = frame.number("chunk_size");
  return size >= 1024 && size % 64 == 0;
}

bool mac_count_is_right(const Scope& frame) {
  const std::uint64_t size = frame.number("chunk_size");
  if (size == 0) return true;  // that is TZR-CRY-008
  const std::uint64_t data_length = frame.number("data_length");
  return frame.number("mac_count") == data_length / size + (data_length % size != 0 ? 1 : 0);
}

// How many chunks of these types the block has.
template <std::uint64_t... types>
std::ptrdiff_t chunks_of(const Scope& frame) {
  const std::vector<ParsedStructure>& chunks = frame.record->children;
  return std::count_if(chunks.begin(), chunks.end(), [](const ParsedStructure& chunk) {
    const Value* type = chunk.children[0].find("chunk_type");
    return type && ((type->number == types) || ...);
  });
}

bool has_one_cipher_at_most(const Scope& frame) { return chunks_of<kChunkParallel, kChunkSequential>(frame) <= 1; }
bool has_one_derivation_at_most(const Scope& frame) { return chunks_of<kChunkKeyDerivation>(frame) <= 1; }
bool has_cipher_for_data(const Scope& frame) {
  return frame.number("data_length") == 0 || chunks_of<kChunkParallel, kChunkSequential>(frame) > 0;
}
bool is_empty_without_data(const Scope& frame) {
  return frame.number("data_length") > 0 || frame.number("chunk_count") == 0;
}

// What lies between the hash list and data_length, as long as the block claims no part of data_length: then it is
// data_length that does not fit into the header.
std::uint64_t crypt_block_room(const Scope& frame) {
  constexpr std::uint64_t number_bytes = 8;
  const std::uint64_t before_data_length = frame.rest - std::min(frame.rest, number_bytes);
  if (before_data_length < number_bytes) return before_data_length;
  const Value& hashes_length = *frame.record->find("hashes_length");
  const std::uint64_t begin = hashes_length.offset + hashes_length.size + hashes_length.number;
  const std::uint64_t claimed = little_endian(frame.file.subspan(begin, number_bytes));
  const std::uint64_t room_max = frame.rest - number_bytes;
  const bool claims_data_length = claimed <= room_max && claimed + number_bytes > before_data_length;
  return claims_data_length ? claimed + number_bytes : before_data_length;
}

std::string show_chunk_type(const Scope&, const Value& value) {
  static constexpr std::array<std::string_view, 4> names = {"", "key derivation", "parallel cipher",
                                                            "sequential cipher"};
  if (value.number == 0 || value.number >= names.size()) return fmt::format("{}", value.number);
  return fmt::format("{}, {}", value.number, names[value.number]);
}

template <Name name, std::uint64_t least>
bool at_least(const Scope& frame) {
  return frame.number(name.view()) >= least;
}

// Rows.

using Checks = std::vector<FieldCheck>;
using Show = std::string (*)(const Scope&, const Value&);

FieldRow number(Type type, std::string_view name, Checks checks = {}, Show show = nullptr) {
  return {.name = name, .type = type, .checks = std::move(checks), .show = show};
}
FieldRow u8(std::string_view name, Checks checks = {}, Show show = nullptr) {
  return number(Type::kU8, name, std::move(checks), show);
}
FieldRow u16(std::string_view name, Checks checks = {}, Show show = nullptr) {
  return number(Type::kU16, name, std::move(checks), show);
}
FieldRow u32(std::string_view name, Checks checks = {}) { return number(Type::kU32, name, std::move(checks)); }
FieldRow u64(std::string_view name, Checks checks = {}, Show show = nullptr) {
  return number(Type::kU64, name, std::move(checks), show);
}
FieldRow bytes(std::string_view name, Number amount, Checks checks = {}, Show show = nullptr) {
  return {.name = name, .type = Type::kBytes, .amount = amount, .checks = std::move(checks), .show = show};
}
FieldRow dims(Type type, Test test, Checks checks = {}) {
  return {.name = "dim", .type = type, .amount = number_of<"ndim">, .when = test, .checks = std::move(checks)};
}
FieldRow list(std::string_view name, Number amount, const Structure& of) {
  return {.name = name, .type = Type::kStructure, .amount = amount, .structure = &of};
}
FieldRow part(std::string_view name, Number room, const Structure& of) {
  return {.name = name, .type = Type::kStructure, .room = room, .structure = &of};
}
FieldRow when(Test test, FieldRow row) {
  row.when = test;
  return row;
}

// Structures that only others refer to.

const Structure kMac = {"", "TZR-CRY-010", "", {bytes("mac", fixed<16>)}};

const Structure kKeyDerivation = {"",
                                  "TZR-CRY-010",
                                  "",
                                  {u16("method", {{"TZR-CRY-011", "1", is<"method", 1>}}),
                                   u64("opslimit", {{"TZR-CRY-014", "at least 1", at_least<"opslimit", 1>}}),
                                   u64("memlimit", {{"TZR-CRY-014", "at least 8192", at_least<"memlimit", 8192>}}),
                                   number(Type::kI32, "alg", {{"TZR-CRY-012", "2, Argon2id", is<"alg", 2>}}),
                                   u16("salt_length", {{"TZR-CRY-013", "16", is<"salt_length", 16>}}),
                                   bytes("salt", number_of<"salt_length">, {}, show_hex)}};

const Structure kParallel = {
    "",
    "TZR-CRY-010",
    "",
    {u64("chunk_size", {{"TZR-CRY-008", "a multiple of 64 and at least 1024", chunk_size_is_right}}),
     bytes("nonce", fixed<24>),
     u64("mac_count", {{"TZR-CRY-009", "data_length / chunk_size, rounded up", mac_count_is_right}}),
     list("macs", number_of<"mac_count">, kMac)}};

const Structure kSequential = {"", "TZR-CRY-010", "", {bytes("nonce", fixed<24>), bytes("mac", fixed<16>)}};

const Structure kChunkBody = {
    "",
    "TZR-CRY-010",
    "TZR-CRY-010",
    {u16("chunk_type", {{"TZR-CRY-003", "1, 2 or 3", is<"chunk_type", 1, 2, 3>}}, show_chunk_type),
     when(is<"chunk_type", kChunkKeyDerivation>, part("payload", nullptr, kKeyDerivation)),
     when(is<"chunk_type", kChunkParallel>, part("payload", nullptr, kParallel)),
     when(is<"chunk_type", kChunkSequential>, part("payload", nullptr, kSequential)),
     when(no<is<"chunk_type", 1, 2, 3>>, bytes("payload", rest_but<0>))}};

const Structure kCryptChunks = {
    "",
    "TZR-CRY-002",
    "TZR-CRY-002",
    {u16("chunk_count"), list("chunks", number_of<"chunk_count">, kCryptChunk)},
    {{"TZR-CRY-007", "the crypt block of a tensor without data should be empty", is_empty_without_data},
     {"TZR-CRY-004", "there is more than one cipher chunk", has_one_cipher_at_most},
     {"TZR-CRY-005", "there is more than one key derivation chunk", has_one_derivation_at_most},
     {"TZR-CRY-006", "there is no cipher chunk for the data", has_cipher_for_data}}};

// Between the hashes and data_length, in a file that is not encrypted.
const Structure kNothing = {"", "TZR-REC-004", "TZR-REC-004", {}};

}  // namespace

const Structure kFileHeader = {
    "file header",
    "TZR-HDR-001",
    "",
    {bytes("magic", fixed<5>, {{"TZR-HDR-002", "'|TZR|'", magic_is_right}}, show_text),
     u32("data version", {{"TZR-HDR-003", "1, 2, 3, 4 or 5", is<"data version", 1, 2, 3, 4, 5>}}),
     {.name = "feature flags",
      .type = Type::kBytes,
      .amount = fixed<32>,
      .checks = {{"TZR-HDR-004", "no bits but 0, and 1 in data version 5", flags_are_known}},
      .show = show_flags,
      .content = [](const Scope& frame, const Value& value) { return Content(bits_of(frame, value)); }},
     u64("total data bytes"),
     bytes("unused", fixed<8>),
     u64("tensor count", {{"TZR-HDR-005", "at least 1", at_least<"tensor count", 1>}})}};

const Structure kLayoutSection = {
    "layout section",
    "TZR-SEG-001",
    "",
    {u64("layout_length", {{"TZR-SEG-001", "45", is<"layout_length", 45>}}),
     u8("layout_version", {{"TZR-SEG-001", "1", is<"layout_version", 1>}}),
     u8("entry_count", {{"TZR-SEG-001", "3", is<"entry_count", 3>}}),
     u8("metadata tag", {{"TZR-SEG-001", "1", is<"metadata tag", 1>}}), u64("metadata_start", {kInOrder}),
     u64("metadata_end", {kInOrder}), u8("header tag", {{"TZR-SEG-001", "2", is<"header tag", 2>}}),
     u64("header_start", {kInOrder}), u64("header_end", {kInOrder}),
     u8("data tag", {{"TZR-SEG-001", "3", is<"data tag", 3>}}), u64("data_start", {kInOrder})}};

const Structure kIndexLength = {"index", "TZR-IDX-001", "", {u64("index_length")}};

const Structure kIndexEntry = {
    "index entry",
    "TZR-IDX-002",
    "",
    {when(has_entry_version, u32("entry_version", {{"TZR-IDX-013", "1 or 5", is<"entry_version", 1, 5>}})),
     u16("name_length"), bytes("name", number_of<"name_length">, {}, show_text),
     u8("kind", {{"TZR-IDX-004", "0, 1 or 2", is<"kind", 0, 1, 2>}}, show_kind), u8("dtype_length"),
     bytes("dtype", number_of<"dtype_length">, {}, show_text), u8("ndim"), dims(Type::kU32, no<has_wide_dims>),
     dims(Type::kU64, has_wide_dims), u64("header_offset"), u64("data_offset"), u64("data_length")}};

const Structure kIndexRoom = {"index", "", "", {bytes("room", rest_but<0>, {}, show_zeros)}};

const Structure kHash = {
    "hash",
    "TZR-HSH-001",
    "",
    {u8("hash type", {{"TZR-HSH-002", "0 or 1", is<"hash type", kHashCrc32, kHashSha256>}}, show_hash_type),
     u8("hash size", {{"TZR-HSH-003", "4 for a CRC32 and 32 for a SHA-256", hash_size_fits_type}}),
     bytes("hash value", number_of<"hash size">, {}, show_hash)}};

const Structure kHashList = {
    "", "TZR-HSH-001", "TZR-HSH-001", {u8("hash_count"), list("hashes", number_of<"hash_count">, kHash)}};

const Structure kCryptChunk = {"crypt chunk",
                               "TZR-CRY-002",
                               "",
                               {u64("chunk_length"), part("type and payload", number_of<"chunk_length">, kChunkBody)}};

const Structure kCryptBlock = {"",
                               "TZR-CRY-001",
                               "TZR-REC-004",
                               {u64("crypt_length"), part("crypt block", number_of<"crypt_length">, kCryptChunks)}};

const Structure kTensorHeader = {
    "tensor header",
    "TZR-REC-003",
    "TZR-REC-004",
    {u64("header_length", {}, show_header_length), u16("module_index"),
     u8("kind", {{"TZR-REC-007", kAsInIndex, equals_index<"kind">, true}}, show_kind), u16("name_length"),
     bytes("name", number_of<"name_length">, {{"TZR-REC-006", kAsInIndex, as_in_index<"name">, true}}, show_text),
     u8("dtype_length"),
     bytes("dtype", number_of<"dtype_length">, {{"TZR-REC-008", kAsInIndex, as_in_index<"dtype">, true}}, show_text),
     u8("ndim"), dims(Type::kU32, no<has_wide_dims>, {{"TZR-REC-009", kAsInIndex, equals_index<"dim">, true}}),
     dims(Type::kU64, has_wide_dims, {{"TZR-REC-009", kAsInIndex, equals_index<"dim">, true}}), u16("hashes_length"),
     part("hash list", number_of<"hashes_length">, kHashList),
     when(in_encrypted_file, part("crypt block", crypt_block_room, kCryptBlock)),
     when(no<in_encrypted_file>, part("nothing", rest_but<8>, kNothing)),
     number(Type::kI64, "data_length",
            {{"TZR-REC-005", "0 or more", not_negative},
             {"TZR-REC-010", kAsInIndex, equals_index<"data_length">, true}})}};

const Structure kTerminator = {
    "terminator", "TZR-TRM-001", "", {u64("terminator", {{"TZR-TRM-002", "0", is<"terminator", 0>}})}};

const Structure kTensorData = {"tensor", "", "", {bytes("data", rest_but<0>, {}, show_data)}};

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all = {
      // name, data version, headers first, segments, long dims, flag, opaque dtypes, meta, may and must be encrypted
      {"v1", 1, false, false, false, 0, false, false, false, false},
      {"v2", 2, false, false, false, 0, true, false, false, false},
      {"v3", 3, false, false, false, 0, true, false, true, true},
      {"v4", 4, false, false, false, 0, true, true, true, false},
      {"v5-headers-first", 5, true, false, false, 0, true, true, true, false},
      {"v5-segments", 5, true, true, false, 0, true, true, true, false},
      {"v5-flagged-dims", 5, false, false, true, 2, true, true, true, false},
      {"v5-long-dims", 5, false, false, true, 0, true, true, true, false},
  };
  return all;
}

std::uint8_t layout_flags(std::uint64_t data_version) {
  std::uint8_t flags = 0;
  for (const Layout& layout : layouts()) {
    if (layout.data_version == data_version) flags |= layout.flag;
  }
  return flags;
}

const Layout& layout_named(std::string_view name) {
  return *std::find_if(layouts().begin(), layouts().end(), [&](const Layout& layout) { return layout.name == name; });
}

const Layout& lowest_layout(const Needs& needs) {
  return *std::find_if(layouts().begin(), layouts().end(), [&](const Layout& layout) {
    return (layout.long_dims || !needs.long_dims) && (layout.opaque_dtypes || !needs.opaque_dtypes) &&
           (layout.meta_tensors || !needs.meta_tensors) && (layout.may_be_encrypted || !needs.encryption) &&
           (needs.encryption || !layout.must_be_encrypted);
  });
}

const Layout& layout_of_version(std::uint64_t data_version) {
  if (data_version == 0) return layouts().front();
  const auto found = std::find_if(layouts().begin(), layouts().end(),
                                  [&](const Layout& layout) { return layout.data_version == data_version; });
  return found == layouts().end() ? layout_named("v4") : *found;
}

std::string_view kind_name(std::uint64_t kind) {
  static constexpr std::array<std::string_view, 3> names = {"parameter", "buffer", "state_dict"};
  return kind < names.size() ? names[kind] : std::string_view();
}

}  // namespace tzmark::conformance::model
