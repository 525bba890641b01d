// The clauses of the rules, and what else a weak reader may make of each; see clauses.h.
#include "planted_bugs/clauses.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <variant>

#include "planted_bugs/weak_checks.h"

namespace tzmark::conformance::planted {
namespace {

using Is = model::Clause;

// A field of this name, or several, that runs past the end of what is around it.
Clause cut(std::string_view field) { return {fmt::format("{} cut", field), {Is::kCut, field}}; }

std::vector<Clause> cuts(const std::vector<std::string_view>& fields) {
  std::vector<Clause> clauses;
  for (const std::string_view field : fields) clauses.push_back(cut(field));
  return clauses;
}

std::vector<Clause> operator+(std::vector<Clause> some, const std::vector<Clause>& more) {
  some.insert(some.end(), more.begin(), more.end());
  return some;
}

Number one_of(int width_bytes, std::vector<std::uint64_t> wanted) {
  return {.right = Number::Right::kOneOf, .width_bytes = width_bytes, .wanted = std::move(wanted)};
}
Number at_least(int width_bytes, std::uint64_t least) {
  return {.right = Number::Right::kAtLeast, .width_bytes = width_bytes, .wanted = {least}};
}
Number equal(int width_bytes) { return {.right = Number::Right::kEqual, .width_bytes = width_bytes}; }

// A field with a wrong value.
Part value(std::string_view field) { return {Is::kValue, field}; }
// A field with another value than in the index.
Part as_index(std::string_view field) { return {Is::kIndexValue, field}; }
const Part kLength = {Is::kLengthCut};
const Part kRest = {Is::kRest};
const Part kHeaderEnd = {Is::kHeaderEnd};
// What a rule states as a whole.
const Part kWhole = {};

// The name of an opaque dtype.
template <const char* kName>
bool has_name(const model::Defect& defect) {
  const auto* dtype = std::get_if<std::string>(&defect.got);
  return dtype && std::string_view(*dtype).substr(dtype->find('\0') + 1).starts_with(kName);
}
constexpr char kBfloat16[] = "torch.bfloat16";
constexpr char kComplex32[] = "torch.complex32";
constexpr char kBits8[] = "torch.bits8";
constexpr char kFloat8[] = "torch.float8_";

std::vector<Clause> bounds() {
  std::vector<Clause> clauses;
  for (const char* name : {"metadata_start", "metadata_end", "header_start", "header_end", "data_start"}) {
    clauses.push_back({name, value(name), {}, kWeakBounds});
  }
  return clauses;
}

// The size of elements that an opaque dtype gives.
std::uint64_t opaque_size(const Event& event) {
  return std::strtoull(event.in_index("dtype").c_str() + 2, nullptr, 10);
}

// Whether all bits are in the 64 from this one on.
template <std::uint64_t kFirst>
bool bits_from(const Numbers& bits) {
  return !bits.empty() && std::ranges::min(bits) >= kFirst && std::ranges::max(bits) < kFirst + 64;
}

// Whether a position in a list wraps around in 64 bits, and no digit makes it smaller.
bool wraps_upwards(const std::string& name) {
  std::uint64_t number = 0, digits = 0;
  bool wraps = false;
  for (const char c : name) {
    if (c < '0' || c > '9') {
      number = digits = 0;
      continue;
    }
    const std::uint64_t next = number * 10 + static_cast<std::uint64_t>(c - '0');
    if (next < number) return false;
    wraps = wraps || ++digits > 19;
    number = next;
  }
  return wraps;
}

// Whether one of the two names begins with a list position and the other one with a string.
bool parts_at_top(const Event& event) {
  static const std::regex position("^\\x1e\\s*\\[\\s*\\d");
  return std::regex_search(event.in_index("name"), position) != std::regex_search(other_name(event), position);
}

}  // namespace

const std::vector<Rule>& rules() {
  static const std::vector<std::string_view> described = {"name_length", "name", "dtype_length",
                                                          "dtype",       "ndim", "dim"};
  static const std::vector<Rule> all = {
      {"TZR-HDR-001",
       0,
       cuts({"magic", "data version", "feature flags", "total data bytes", "unused", "tensor count"})},
      {"TZR-HDR-002",
       0,
       {{"magic",
         value("magic"),
         {},
         {text_that("the first byte is not compared", [](std::string_view text) { return text.substr(1) == "TZR|"; }),
          text_that("the last byte is not compared", [](std::string_view text) { return text.starts_with("|TZR"); }),
          text_that("the case of letters is ignored",
                    [](std::string_view text) {
                      constexpr char kLower = 0x20;
                      return text.size() == 5 && text[0] == '|' && (text[1] | kLower) == 't' &&
                             (text[2] | kLower) == 'z' && (text[3] | kLower) == 'r' && text[4] == '|';
                    }),
          text_that("the letters alone are compared",
                    [](std::string_view text) { return text.substr(1, 3) == "TZR"; }),
          text_that("the bars alone are compared",
                    [](std::string_view text) { return text.front() == '|' && text.back() == '|'; })}}}},
      {"TZR-HDR-003", 0, {{"version", value("data version"), one_of(4, {1, 2, 3, 4, 5})}}},
      {"TZR-HDR-004",
       0,
       {{"flags",
         value("feature flags"),
         {},
         {bits_that("the first byte alone is checked",
                    [](const Dims& bits) { return !bits.empty() && std::ranges::min(bits) >= 8; }),
          bits_that("the first four bytes alone are checked",
                    [](const Dims& bits) { return !bits.empty() && std::ranges::min(bits) >= 32; }),
          bits_that("the first eight bytes alone are checked",
                    [](const Dims& bits) { return !bits.empty() && std::ranges::min(bits) >= 64; }),
          bits_that("the last byte is not checked",
                    [](const Dims& bits) { return !bits.empty() && std::ranges::min(bits) >= 248; }),
          bits_that("the first byte is not checked",
                    [](const Dims& bits) { return !bits.empty() && std::ranges::max(bits) < 8; }),
          bits_that("bit 7 alone of the first byte is not checked", [](const Dims& bits) { return bits == Dims{7}; }),
          bits_that("bits 64 to 127 are not checked", bits_from<64>),
          bits_that("bits 128 to 191 are not checked", bits_from<128>),
          bits_that("bits 192 to 255 are not checked", bits_from<192>),
          bits_that("bit 2 is taken", [](const Dims& bits) { return bits == Dims{2}; }),
          bits_that("bit 1 is taken in data version 4", [](const Dims& bits) { return bits == Dims{1}; }),
          {"not checked in data version 4", [](const Event& event) { return version_is(event, 4); }},
          {"not checked in data version 5", [](const Event& event) { return version_is(event, 5); }},
          {"not checked if bit 0 is set", [](const Event& event) { return event.subject.encrypted(); }},
          {"not checked unless bit 0 is set", [](const Event& event) { return !event.subject.encrypted(); }},
          {"not checked if bit 1 is set",
           [](const Event& event) {
             return version_is(event, 5) && (event.subject.bytes[9] & std::byte{2}) != std::byte{0};
           }}}}}},
      {"TZR-HDR-005", 0, {{"count", value("tensor count")}}},
      {"TZR-HDR-007", kKnownHeader, {{"layout", kWhole}}},
      {"TZR-HDR-008", kKnownHeader, {{"layout", kWhole}}},

      {"TZR-IDX-001",
       kRecords | kHeadersFirst | kBoth | kKnownHeader,
       {cut("index_length"),
        {"index_length", kLength, {}, kWeakLengths}}},
      {"TZR-IDX-002",
       kAny | kTensor,
       cuts({"entry_version", "name_length", "name", "dtype", "dim", "header_offset", "data_offset", "data_length"}) +
           std::vector<Clause>{cut("kind"), cut("dtype_length"), cut("ndim"), {"count", value("tensor count")}}},
      {"TZR-IDX-003",
       kRecords | kBoth | kKnownHeader,
       {{"rest",
         kWhole,
         {},
         {{"the first byte of the rest alone is checked",
           [](const Event& event) {
             const auto rooms = event.subject.all("index", "room");
             return !rooms.empty() && event.defect.offset > rooms[0]->offset;
           }},
          {"the low bytes of entries are not told from zeros",
           [](const Event& event) { return event.bytes_there().starts_with('\x01'); }}}}}},
      {"TZR-IDX-004", kAny | kTensor, {{"kind", value("kind"), one_of(1, {0, 1, 2})}}},
      {"TZR-IDX-005", kAny | kTensor | kNoData, {{"size", kWhole, {}, kWeakNominal}}},
      {"TZR-IDX-006",
       kAny | kTensor | kData,
       {{"size", {Is::kNominalSize}, equal(8)}}},
      {"TZR-IDX-007",
       kBoth | kTensor | kNoData,
       {{"version",
         kWhole,
         {},
         {{"taken in data version 1", [](const Event& event) { return event.layout == "v1"; }},
          {"taken in data version 2", [](const Event& event) { return event.layout == "v2"; }},
          {"taken in data version 3", [](const Event& event) { return event.layout == "v3"; }}}}}},
      {"TZR-IDX-008",
       kRecords | kHeadersFirst | kBoth | kTensor,
       {{"place", {Is::kNoHeaderPlace}, {}, kWeakHeaderPlaces}}},
      {"TZR-IDX-009",
       kRecords | kBoth | kTensor,
       {{"place", kHeaderEnd, equal(8)}}},
      {"TZR-IDX-010", kAny | kTensor, {{"place", {Is::kOutside}, {}, kWeakDataPlaces}}},
      {"TZR-IDX-011",
       kAny | kPairs | kTensor,
       {{"header in a record", {Is::kRecordEnd}},
        {"header in a header", {Is::kOverlap, "header_offset"}},
        {"data in data", {Is::kOverlap, "data_offset"}}}},
      {"TZR-IDX-012", 0, {{"gap", {Is::kRecordEnd}}}},
      {"TZR-IDX-013",
       kLongDims | kFlaggedDims | kBoth | kTensor,
       {{"version", value("entry_version"), one_of(4, {1, 5})}}},
      {"TZR-IDX-014",
       kHeadersFirst | kSegments | kBoth | kKnownHeader,
       {{"rest", kRest, {}, kWeakRests}}},
      {"TZR-IDX-015",
       kHeadersFirst | kSegments | kBoth | kTensor | kData,
       {{"place", {Is::kOverlap}}}},

      {"TZR-REC-001", kAny | kTensor, {{"length", value("header_length")}}},
      {"TZR-REC-002",
       kRecords | kHeadersFirst | kBoth | kTensor,
       {{"end", kHeaderEnd, equal(8)},
        {"length cut", {Is::kCut, "header_length"}},
        {"length", kLength, {}, kWeakLengths}}},
      {"TZR-REC-003",
       kAny | kTensor,
       cuts({"header_length", "module_index", "kind", "hashes_length", "hash list", "data_length"}) + cuts(described)},
      {"TZR-REC-004", kAny | kTensor, {{"rest", kRest, {}, kWeakRests}}},
      {"TZR-REC-005", 0, {{"sign", value("data_length")}}},
      {"TZR-REC-006", kAny | kTensor, {{"name", as_index("name"), {}, as_bytes("name", 256)}}},
      {"TZR-REC-007", kAny | kTensor, {{"kind", as_index("kind"), equal(1)}}},
      {"TZR-REC-008", kAny | kTensor, {{"dtype", as_index("dtype"), {}, as_bytes("dtype", 128)}}},
      {"TZR-REC-009", kAny | kTensor, {{"dim", as_index("dim"), {}, kWeakShapes}}},
      {"TZR-REC-010", kAny | kTensor, {{"data_length", as_index("data_length"), equal(8)}}},

      {"TZR-TRM-001", 0, {cut("terminator")}},
      {"TZR-TRM-002", 0, {{"terminator", value("terminator")}}},

      {"TZR-NAM-001",
       kAny | kTensor | kOwnName,
       {{"name",
         {Is::kNotUtf8},
         {},
         {utf8_with("overlong forms are taken", {.overlong = true}),
          utf8_with("surrogates are taken", {.surrogates = true}),
          utf8_with("code points above 10FFFF are taken", {.large = true}),
          utf8_with("forms of five and six bytes are taken", {.long_forms = true}),
          utf8_with("a character cut by the end is taken", {.cut_at_end = true}),
          utf8_with("stray continuation bytes are taken", {.stray = true}),
          name_with("the first byte alone is checked", "^[\\x01-\\x7f]"),
          name_with("the last byte alone is checked", "[\\x01-\\x7f]$")}}},
       utf8_in_parts()},
      {"TZR-NAM-002",
       kAny | kTensor | kOwnName | kStructuredName,
       {{"no array",
         {Is::kNoArray},
         {},
         {name_with("a string alone is taken", "^\\x1e\\s*\""), name_with("an object is taken", "^\\x1e\\s*\\{"),
          name_with("a number alone is taken", "^\\x1e\\s*\\d"), name_with("an empty text is taken", "^\\x1e\\s*$"),
          name_with("a second array behind it is taken", "\\]\\s*\\["),
          name_with("a bracket behind it is taken", "\\]\\s*[\\]}]$"),
          name_with("other bytes behind it are taken", "\\][^\\]\\[} \\t\\r\\n,\"]"),
          name_with("a comma before the end is taken", ",\\s*\\]"),
          name_with("a missing bracket is taken", "^\\x1e\\s*\\[[^\\]]*$"),
          name_with("a number with a leading zero is taken", "[\\[,]\\s*0\\d"),
          name_with("half a surrogate pair is taken", "\\\\u[dD][89a-fA-F]"),
          name_with("the second half of a surrogate pair alone is taken", "[^\\\\]\\\\u[dD][c-fC-F]"),
          name_with("the first half of a surrogate pair before a letter is taken", "\\\\u[dD][89abAB]..[^\\\\\"]"),
          name_with("escapes are read as numbers of C", "\\\\u0[xX]"),
          name_with("underscores in numbers are taken", "[\\[,]\\d+_\\d"),
          contains("digits of other scripts are taken", "name", "\xd9\xa3"),
          contains("white space of other scripts is taken", "name", "]\xc2\xa0"),
          name_with("single quotes are taken", "'"), name_with("control characters are taken", "[\\x01-\\x08\\x1f]"),
          name_with("a tab in a string is taken", "\"[^\"]*\\t[^\"]*\""),
          name_with("unknown escapes are taken", "\\\\[^\"\\\\/bfnrtu]"),
          name_with("a byte order mark is taken", "^\\x1e\\xef\\xbb\\xbf"),
          {"a NUL byte ends the text",
           [](const Event& event) { return event.in_index("name").find('\0') != std::string::npos; }}}},
        {"no elements of paths",
         {Is::kNoElement},
         {},
         {name_with("true and false are taken", "true|false"), name_with("null is taken", "null"),
          name_with("objects are taken", "\\{"), name_with("arrays are taken", "\\[[^\"]*\\[|,\\s*\\["),
          name_with("negative numbers are taken", "-[1-9]"), name_with("minus zero is taken", "-0"),
          name_with("fractions are taken", "\\d\\.\\d"), name_with("exponents are taken", "\\d[eE]\\d"),
          name_with("2^64 and more are taken", "\\d{20}"),
          {"a digit that makes the number smaller alone shows that it is 2^64 or more",
           [](const Event& event) { return wraps_upwards(event.in_index("name")); }},
          name_with("the first element alone is checked", "^\\x1e\\s*\\[\\s*(\"|\\d+\\s*[,\\]])"),
          name_with("the last element alone is checked", "\"\\s*\\]$")}}}},
      {"TZR-NAM-003", kAny | kTensor | kOwnName | kStructuredName, {{"array", {Is::kEmptyPath}}}},
      {"TZR-NAM-004",
       kAny | kTensor | kOwnName | kStructuredName,
       {{"newline",
         {Is::kNewline},
         {},
         {name_with("0D is taken", "^[^\\n]*\\r[^\\n]*$"), name_with("0A is taken", "^[^\\r]*\\n[^\\r]*$"),
          name_with("taken before the bracket", "^\\x1e\\s*[\\r\\n]\\s*\\["),
          name_with("taken after the bracket", "\\]\\s*[\\r\\n]"),
          name_with("taken between elements", "[,\\[]\\s*[\\r\\n]|[\\r\\n]\\s*[,\\]]")}}}},
      {"TZR-NAM-005",
       kAny | kTensor | kStructuredName,
       {{"kind",
         {Is::kPathKind},
         {},
         {{"kind 0 is taken", [](const Event& event) { return event.in_index("kind") == std::string(1, '\0'); }},
          {"kind 1 is taken", [](const Event& event) { return event.in_index("kind") == "\x01"; }}}}}},
      {"TZR-NAM-006",
       kAny | kPairs | kTensor,
       {{"path",
         {Is::kSamePath},
         {},
         {{"names are compared as bytes",
           [](const Event& event) { return event.in_index("name") != other_name(event); }}}}},
       kWeakTrees},
      {"TZR-NAM-007",
       kAny | kPairs | kStructuredName | kTensor,
       {{"path", {Is::kPathInside}, {}, kWeakOrders}},
       kWeakTrees},
      {"TZR-NAM-008",
       kAny | kPairs | kTensor,
       {{"path",
         {Is::kPathMixed},
         {},
         {{"the top level is not checked", parts_at_top},
          {"the top level alone is checked", [](const Event& event) { return !parts_at_top(event); }},
          kWeakOrders[0],
          kWeakOrders[1]}}},
       kWeakTrees},

      {"TZR-DTY-001",
       kAny | kTensor,
       {{"dtype",
         {Is::kNoType},
         {},
         {dtype_with("an empty text is taken", "^$"), dtype_with("a code without a mark is taken", "^[a-z]\\d+$"),
          dtype_with("long names are taken", "^[a-z]+\\d+$"), dtype_with("the mark = is taken", "^="),
          dtype_with("| is taken for more than one byte", "^\\|[ifuc][2-9]"),
          dtype_with("objects are taken", "^.O"), dtype_with("sizes that torch lacks are taken", "^[<>|][bifuc]\\d+$"),
          dtype_with("structures and sub-arrays are taken", "[(\\[,]"),
          dtype_with("a count of 0 is taken", "^.[SU]0+$"), dtype_with("a leading zero is taken", "^.[SU]0[1-9]"),
          dtype_with("no count is taken", "^.[SU]$"), dtype_with("a date without its 8 is taken", "^.[mM]($|\\[)"),
          dtype_with("unknown units are taken", "^.[mM]8\\[\\d*[A-Za-z]+\\]$"),
          dtype_with("a multiplier of 0 is taken", "\\[0+[A-Za-z]"),
          dtype_with("a multiplier with a leading zero is taken", "\\[0+[1-9]"),
          dtype_with("generic is taken for a unit", "\\[generic\\]"),
          dtype_with("a divisor of a unit is taken", "\\[\\w+/\\d+\\]"),
          contains("digits of other scripts are taken", "dtype", "S\xd9\xa3"),
          dtype_wraps("counts of bytes are narrowed to 32 bits", "^.S(\\d+)$", 1, 32),
          dtype_wraps("counts of bytes wrap in 64 bits", "^.S(\\d+)$", 1, 64),
          dtype_wraps("sizes of characters are narrowed to 32 bits", "^.U(\\d+)$", 4, 32),
          dtype_wraps("multipliers are narrowed to 32 bits", "\\[(\\d+)", 1, 32),
          dtype_wraps("multipliers wrap in 64 bits", "\\[(\\d+)", 1, 64),
          dtype_with("a line end behind the code is taken", "^[<>|](b1|[iu][1248]|f[248]|c8|c16)\n$"),
          dtype_with("other bytes behind the code are taken", "^[<>|](b1|[iu][1248]|f[248]|c8|c16).+$"),
          dtype_with("upper case is taken", "^[<>|][BIFC]\\d"),
          dtype_with("counts of nine and more digits are taken", "^.[SU]\\d{9}"),
          dtype_with("multipliers of nine and more digits are taken", "\\[\\d{9}")}},
        {"byte order", {Is::kNoByteOrder}}}},
      {"TZR-DTY-002",
       kAny | kTensor,
       {{"head",
         {Is::kOpaqueHead},
         {},
         {dtype_with("the mark > is taken", "^>V\\d"),
          dtype_with("a plain type is taken", "^[<>|][bifuc]"), dtype_with("no size is taken", "^.V(\\x00|$)"),
          {"a size of 0 is taken",
           [](const Event& event) { return event.in_index("dtype").substr(1, 2) == "V0"; }},
          dtype_with("no mark is taken", "^V")}},
        {"NUL byte",
         {Is::kOpaqueName},
         {},
         {{"none is taken", [](const Event& event) { return event.in_index("dtype").find('\0') == std::string::npos; }},
          {"two are taken",
           [](const Event& event) { return std::ranges::count(event.in_index("dtype"), '\0') == 2; }}}}}},
      {"TZR-DTY-003",
       kAny | kTensor,
       {{"name",
         {Is::kUnknownName},
         {},
         {dtype_with("other types of torch are taken", "torch\\.(float|int|uint|bool|complex|bits|q)[0-9a-z]*$"),
          dtype_with("other modules are taken", "^..[0-9]+[^t][^.]*\\.|os\\."),
          dtype_with("no module is taken", "(^|[^.])(bfloat16|complex32|bits8|float8_[a-z0-9]+)$"),
          dtype_with("float8_ alone is taken", "torch\\.float8_$"),
          contains("letters of other scripts are taken", "dtype", "float8_\xc3\xa9"),
          dtype_with("attributes of a type are taken",
                     "torch\\.(bfloat16|complex32|bits8|float8_[a-z0-9_]+)\\.[a-z_]+"),
          dtype_with("other bytes behind a name are taken", "torch\\.(bfloat16|complex32|bits8|float8_[a-z0-9]+).+$"),
          dtype_with("upper case is taken", "[A-Z][A-Za-z0-9_.]*$"),
          {"no name is taken",
           [](const Event& event) {
             const std::string dtype = event.in_index("dtype");
             return !dtype.empty() && dtype.back() == '\0';
           }}}}}},
      {"TZR-DTY-004",
       kAny | kTensor,
       {{"bfloat16", {Is::kElementSize, "dtype", has_name<kBfloat16>}},
        {"complex32", {Is::kElementSize, "dtype", has_name<kComplex32>}},
        {"bits8", {Is::kElementSize, "dtype", has_name<kBits8>}},
        {"float8", {Is::kElementSize, "dtype", has_name<kFloat8>}}},
       {{"a larger size is taken",
         [](const Event& event) { return opaque_size(event) > event.numbers()[0]; }},
        {"a smaller size is taken",
         [](const Event& event) { return opaque_size(event) < event.numbers()[0]; }}}},

      {"TZR-HSH-001",
       kAny | kTensor,
       {{"rest", kRest},
        cut("hash_count"),
        cut("hash type"),
        cut("hash size"),
        cut("hash value")}},
      {"TZR-HSH-002", kAny | kTensor | kItems, {{"type", value("hash type"), one_of(1, {0, 1})}}},
      {"TZR-HSH-003",
       kAny | kTensor | kItems,
       {{"size",
         value("hash size"),
         {},
         {{"not checked for CRC32",
           [](const Event& event) { return event.subject.bytes[*event.defect.offset - 1] == std::byte{0}; }},
          {"not checked for SHA-256",
           [](const Event& event) { return event.subject.bytes[*event.defect.offset - 1] == std::byte{1}; }},
          number_in("0 is taken", {0}), number_in("the size of the other type is taken", {4, 32}),
          number_in("more is taken", {5, 33, 64, 255}), number_in("less is taken", {3, 31, 16, 0})}}}},
      {"TZR-HSH-004", kAny | kTensor, {{"hash", kWhole}}},
      {"TZR-HSH-005", kAny | kTensor | kItems, {{"hash", kWhole}}, kWeakHashes},
      {"TZR-HSH-006", kAny | kTensor | kItems, {{"hash", kWhole}}, kWeakHashes},

      {"TZR-CRY-001",
       kSealed | kSecret,
       {cut("crypt_length"), cut("crypt block")}},
      {"TZR-CRY-002",
       kSealed | kItems | kSecret,
       {cut("chunk_count"), cut("chunk_length"), cut("type and payload"), {"rest", kRest}}},
      {"TZR-CRY-003",
       kSealed | kData | kItems | kSecret,
       {{"type", value("chunk_type"), one_of(2, {1, 2, 3})}}},
      {"TZR-CRY-004",
       kSealed | kData | kSecret,
       {{"chunks", kWhole}},
       {{"two of one type are taken",
         [](const Event& event) { return has_chunk(event, 2) != has_chunk(event, 3); }},
        {"two of different types are taken",
         [](const Event& event) { return has_chunk(event, 2) && has_chunk(event, 3); }}}},
      {"TZR-CRY-005", kSealed | kData | kSecret, {{"chunks", kWhole}}},
      {"TZR-CRY-006",
       kSealed | kData | kSecret,
       {{"chunks", kWhole}},
       {{"a key derivation alone is taken", [](const Event& event) { return has_chunk(event, 1); }},
        {"an empty block is taken", [](const Event& event) { return !has_chunk(event, 1); }}}},
      {"TZR-CRY-007",
       kSealed | kNoData | kSecret,
       {{"block", kWhole}},
       {{"a cipher is taken",
         [](const Event& event) { return has_chunk(event, 2) || has_chunk(event, 3); }},
        {"a key derivation is taken", [](const Event& event) { return has_chunk(event, 1); }},
        {"taken for meta tensors",
         [](const Event& event) {
           const Dims dims = dims_of(event, event.in_index("dim"));
           return std::ranges::find(dims, 0) == dims.end();
         }},
        {"taken for tensors with zero elements",
         [](const Event& event) {
           const Dims dims = dims_of(event, event.in_index("dim"));
           return std::ranges::find(dims, 0) != dims.end();
         }}}},
      {"TZR-CRY-008",
       kSealed | kData | kSecret,
       {{"chunk_size", value("chunk_size"), {}, kWeakChunkSizes}}},
      {"TZR-CRY-009", kSealed | kData | kSecret, {{"mac_count", value("mac_count")}}, kWeakMacCounts},
      {"TZR-CRY-010",
       kSealed | kData | kItems | kSecret,
       cuts({"chunk_type", "method", "opslimit", "memlimit", "alg", "salt_length", "salt", "chunk_size", "nonce",
             "mac_count", "mac"}) +
           std::vector<Clause>{{"rest", kRest}}},
      {"TZR-CRY-011",
       kSealed | kData | kSecret,
       {{"method", value("method"), one_of(2, {1})}}},
      {"TZR-CRY-012", kSealed | kData | kSecret, {{"alg", value("alg"), one_of(4, {2})}}},
      {"TZR-CRY-013",
       kSealed | kData | kSecret,
       {{"salt_length", value("salt_length"), one_of(2, {16})}}},
      {"TZR-CRY-014",
       kSealed | kData | kSecret,
       {{"opslimit", value("opslimit")}, {"memlimit", value("memlimit"), at_least(8, 8192)}}},
      {"TZR-CRY-015",
       kSealed | kData,
       {{"opslimit", {Is::kDerivation, "opslimit"}, {}, kWeakPasses},
        {"memlimit", {Is::kDerivation, "memlimit"}, {}, kWeakMemory},
        {"derivations", kWhole}}},
      {"TZR-CRY-016",
       kSealed | kData | kItems,
       {{"MAC", {Is::kMac}}},
       {{"not checked with a passphrase",
         [](const Event& event) { return event.subject.item.secret.passphrase.has_value(); }},
        {"not checked with a raw key", [](const Event& event) { return event.subject.item.secret.key.has_value(); }},
        {"not checked for the parallel cipher", [](const Event& event) { return has_chunk(event, 2); }},
        {"not checked for the sequential cipher", [](const Event& event) { return has_chunk(event, 3); }},
        path_known("not checked in a file that was opened before")}},
      {"TZR-CRY-017",
       kAll | kKnownHeader,
       {{"key", kWhole}},
       {{"a raw key is taken", [](const Event& event) { return event.subject.item.secret.key.has_value(); }},
        {"a passphrase is taken",
         [](const Event& event) { return event.subject.item.secret.passphrase.has_value(); }},
        path_known("not checked in a file that was opened before")}},
      {"TZR-CRY-018",
       kAll | kKnownHeader,
       {{"key", kWhole}},
       {{"taken if the first tensor has no data",
         [](const Event& event) { return event.subject.number("index entry 0", "data_length") == 0; }},
        {"taken if the first tensor has data",
         [](const Event& event) { return event.subject.number("index entry 0", "data_length") != 0; }},
        path_known("the key of the same file's last opening serves")}},
      {"TZR-CRY-019",
       kAll | kTensor | kData,
       {{"chunk", kWhole}},
       {path_known("the key of the same file's last opening serves")}},

      {"TZR-SEG-001",
       kKnownHeader,
       {{"header tag", value("header tag"), one_of(1, {2})},
        {"data tag", value("data tag"), one_of(1, {3})},
        {"section cut", {Is::kCut}}}},
      {"TZR-SEG-002", kBoth | kKnownHeader, bounds()},
      {"TZR-SEG-003",
       kBoth | kKnownHeader,
       {cut("index_length"), {"index_length", kLength, {}, kWeakLengths}}},
      {"TZR-SEG-004",
       kBoth | kTensor,
       {{"place", {Is::kNoHeaderPlace}, {}, kWeakHeaderPlaces},
        {"length cut", {Is::kCut, "header_length"}},
        {"length", kLength, {}, kWeakLengths}}},
  };
  return all;
}

}  // namespace tzmark::conformance::planted
