// Where the format leaves a choice to readers; see choices.h.
#include "mutation/choices.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "model/dtypes.h"
#include "model/tables.h"
#include "model/tensor_names.h"
#include "model/text.h"

namespace tzmark::conformance::mutation {
namespace {

using model::Bytes;
using model::Defect;
using model::Description;
using model::Field;
using model::Json;

// Of plain types.
constexpr std::uint64_t kItemBytesMax = 16;
// The size of an empty crypt block; fewer bytes cannot be one.
constexpr std::uint64_t kCryptBlockBytesMin = 10;
// Of data in v5-segments.
constexpr std::uint64_t kDataAlignment = 8;
// The limit of tensor libraries.
constexpr std::size_t kDimsMax = 32;
// Less than any reader's stack holds.
constexpr std::size_t kPathElementsMax = 64;
// What no reader derives, by FORMAT.md 10.2.
constexpr std::size_t kRefusedDerivations = 256;
// method, opslimit, memlimit, alg and salt_length.
constexpr std::uint64_t kBeforeSaltBytes = 2 + 8 + 8 + 4 + 2;

const Field* field_at(const Description& description, std::uint64_t offset) {
  const auto& fields = description.fields;
  const auto found = std::ranges::find_if(fields, [&](const Field& f) { return f.offset == offset; });
  return found == fields.end() ? nullptr : &*found;
}

const Field* field_of(const Description& description, const std::string& structure, std::string_view name) {
  const auto& fields = description.fields;
  const auto found =
      std::ranges::find_if(fields, [&](const Field& f) { return f.structure == structure && f.name == name; });
  return found == fields.end() ? nullptr : &*found;
}

std::string_view text_at(Bytes file, const Field& field) {
  return model::text_of(file.subspan(field.offset, field.size));
}

// "index entry 3" of "tensor header 3" and of "tensor header 3, hash 0".
std::string entry_of(const std::string& structure) {
  const std::size_t number = structure.find_first_of("0123456789");
  if (number == structure.npos) return "";
  return "index entry " + structure.substr(number, structure.find_first_not_of("0123456789", number) - number);
}

// Broken rules.

// A name that is right but for a minus sign in front of a zero.
bool has_minus_zero(const std::string& name) {
  std::string tame;
  bool in_string = false;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '"') in_string = !in_string;
    if (in_string && name[i] == '\\' && i + 1 < name.size()) {
      tame += name.substr(i++, 2);
      continue;
    }
    const std::size_t before = tame.find_last_not_of(" \t\r\n");
    const bool begins = before != tame.npos && (tame[before] == '[' || tame[before] == ',');
    const bool minus = !in_string && begins && name[i] == '-' && i + 1 < name.size() && name[i + 1] == '0';
    if (!minus) tame += name[i];
  }
  return tame != name && model::parse_name(tame, 2).broken_rule.empty();
}

bool is_open_dtype(std::string_view text) {
  static const std::set<std::string_view> names = {"bool",    "int8",    "int16",     "int32",     "int64",
                                                   "uint8",   "uint16",  "uint32",    "uint64",    "float16",
                                                   "float32", "float64", "complex64", "complex128"};
  constexpr std::string_view kPlain = "biufc";
  const bool is_plain = !text.empty() && kPlain.find(text.front()) != kPlain.npos;
  return names.contains(text) || (is_plain && model::dtype_of("<" + std::string(text)).broken_rule.empty());
}

bool is_word(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// Whether the keys of a file cost less than what every reader refuses. Tensors without data derive none, and have no
// numbers for it.
bool has_open_derivation_cost(Bytes file, const Description& description) {
  std::set<std::string_view> derivations;
  for (const Field& field : description.fields) {
    const Bytes bytes = file.subspan(field.offset, field.size);
    if (field.name == "opslimit" && model::little_endian(bytes) >= kRefusedOpslimit) return false;
    if (field.name == "memlimit" && model::little_endian(bytes) >= kRefusedMemlimitBytes) return false;
    // The fields of the chunk lie one after another, and the salt is the last.
    if (field.name == "salt")
      derivations.insert(model::text_of(file.subspan(field.offset - kBeforeSaltBytes, kBeforeSaltBytes + field.size)));
  }
  return derivations.size() < kRefusedDerivations;
}

bool has_entry_versions(std::string_view layout) { return model::layout_named(layout).long_dims; }

// The name of the choice that a defect leaves; empty if none.
std::string open_defect(Bytes file, const Description& description, const Defect& defect) {
  if (!defect.offset) return "";
  const Field* field = field_at(description, *defect.offset);
  if (defect.rule == "TZR-IDX-012") return "record-gaps";
  if (defect.rule == "TZR-TRM-001" || defect.rule == "TZR-TRM-002") return "terminator";
  if (!field) return "";
  if (defect.rule == "TZR-CRY-015") return has_open_derivation_cost(file, description) ? "derivation-cost" : "";
  if (defect.rule == "TZR-REC-004") {
    const bool plain =
        defect.clause == model::Clause::kRest && field->name == "no field" && field->size < kCryptBlockBytesMin;
    return plain ? "header-slack" : "";
  }
  if (defect.rule == "TZR-REC-006") {
    const std::string entry = model::StructureId{"index entry", defect.structure.tensor}.label();
    const Field* other = field_of(description, entry, "name");
    const Field* kind = field_of(description, entry, "kind");
    if (!other || !kind) return "";
    const std::uint64_t number = model::little_endian(file.subspan(kind->offset, 1));
    const auto path = model::parse_name(text_at(file, *field), number).path;
    return path && path == model::parse_name(text_at(file, *other), number).path ? "respelled-name" : "";
  }
  const std::string_view text = text_at(file, *field);
  if (defect.rule == "TZR-DTY-001") {
    const bool opaque =
        text.starts_with("|V") && model::dtype_of("<" + std::string(text.substr(1))).broken_rule.empty();
    if (opaque) return "opaque-byte-order";
    return is_open_dtype(text) ? "dtype-spelling" : "";
  }
  if (defect.rule == "TZR-DTY-003") {
    const std::string_view name = text.substr(std::min(text.find('\0'), text.size() - 1) + 1);
    const bool open = name.starts_with("torch.") && name.size() > 6 && is_word(name.substr(6));
    return open ? "unknown-opaque-dtype" : "";
  }
  if (defect.rule == "TZR-NAM-002") return has_minus_zero(std::string(text)) ? "minus-zero" : "";
  return "";
}

// Content that the model takes.

// Whether some dimension exceeds a signed 64-bit number.
bool has_unsigned_dimension(const Json& tensor) {
  const Json& shape = tensor["shape"];
  return std::ranges::any_of(shape, [](const Json& dim) { return dim.get<std::uint64_t>() > INT64_MAX; });
}

// Whether the product of dimensions overflows 64 bits before it reaches a 0.
bool has_product_beyond_64_bits(const Json& tensor) {
  std::uint64_t product = 1;
  bool beyond = false;
  for (const Json& dim : tensor["shape"]) {
    const auto factor = dim.get<std::uint64_t>();
    if (factor == 0) return beyond;
    beyond = beyond || product > UINT64_MAX / kItemBytesMax / factor;
    if (!beyond) product *= factor;
  }
  return false;
}

bool has_writer_defect(const Description& description, std::string_view rule) {
  return std::ranges::any_of(description.defects, [&](const Defect& defect) { return defect.rule == rule; });
}

bool has_many_dimensions(const Json& tensor) { return tensor["shape"].size() > kDimsMax; }

bool has_long_path(const Json& tensor) { return tensor["path"].size() > kPathElementsMax; }

bool any_tensor(const Description& description, bool (*test)(const Json&)) {
  const Json& tensors = description.document["tensors"];
  return std::ranges::any_of(tensors, test);
}

// Hash types of each header in their order.
std::vector<std::vector<std::uint64_t>> numbers_by_tensor(Bytes file, const Description& description,
                                                          std::string_view name) {
  std::map<std::string, std::vector<std::uint64_t>> numbers;
  for (const Field& field : description.fields) {
    if (field.name == "header_length") numbers[entry_of(field.structure)];
    if (field.name != name) continue;
    numbers[entry_of(field.structure)].push_back(model::little_endian(file.subspan(field.offset, field.size)));
  }
  std::vector<std::vector<std::uint64_t>> lists;
  for (auto& [structure, list] : numbers) lists.push_back(std::move(list));
  return lists;
}

bool has_odd_hashes(Bytes file, const Description& description, bool (*is_odd)(const std::vector<std::uint64_t>&)) {
  const auto lists = numbers_by_tensor(file, description, "hash type");
  return std::ranges::any_of(lists, is_odd);
}

bool lacks_sha256(const std::vector<std::uint64_t>& types) { return std::ranges::find(types, 1) == types.end(); }

bool has_metadata_elsewhere(const Description& description) {
  const Field* start = field_of(description, "layout section", "metadata_start");
  return start && start->value != "118";
}

bool has_other_order(const Description& description) {
  std::uint64_t last = 0;
  for (const Field& field : description.fields) {
    if (field.name != "header_offset") continue;
    const std::uint64_t offset = std::stoull(field.value);
    if (offset < last) return true;
    last = offset;
  }
  return false;
}

bool has_trailing_bytes(const Description& description) {
  return std::ranges::any_of(description.defects,
                             [](const Defect& defect) { return defect.clause == model::Clause::kTrailing; });
}

// A value of the index, by the number of its entry.
std::uint64_t index_value(const Description& description, std::size_t tensor, std::string_view name) {
  const Field* field = field_of(description, "index entry " + std::to_string(tensor), name);
  return field ? std::stoull(field->value) : 0;
}

// Whether a tensor without data has a data_offset before the end of the data of the tensors before it in the index,
// after the beginning of the data of those after it, or behind all data; writers place it where its data would begin.
bool has_stray_data_offset(const Description& description) {
  const std::size_t tensors = description.document["tensors"].size();
  std::vector<std::uint64_t> offsets(tensors), lengths(tensors);
  for (std::size_t i = 0; i < tensors; ++i) {
    offsets[i] = index_value(description, i, "data_offset");
    lengths[i] = index_value(description, i, "data_length");
  }
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < tensors; ++i) {
    if (lengths[i] > 0) end = std::max(end, offsets[i] + lengths[i]);
  }
  const std::uint64_t last = (end + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
  for (std::size_t i = 0; i < tensors; ++i) {
    if (lengths[i] > 0) continue;
    if (end > 0 && offsets[i] > last) return true;
    for (std::size_t j = 0; j < tensors; ++j) {
      if (lengths[j] == 0) continue;
      if (j < i ? offsets[i] < offsets[j] + lengths[j] : offsets[i] > offsets[j]) return true;
    }
  }
  return false;
}

bool has_flags(Bytes file) {
  const Bytes flags = file.subspan(9, 32);
  return std::ranges::any_of(flags, [](std::byte b) { return b != std::byte{0}; });
}

}  // namespace

const std::map<std::string, OpenChoice>& open_choices() {
  static const std::map<std::string, OpenChoice> choices = {
      {std::string(kBeyondDescription),
       {"Whether a reader takes what the reference library of safetensors takes beyond the format's description.",
        {"ST-005", "ST-006", "ST-007", "ST-008", "ST-009"},
        false,
        false}},
      {"flags-before-v4",
       {"Whether feature flags are ignored in a file of a data version before 4.", {"TZR-HDR-004"}, true, false}},
      {"v4-as-v5",
       {"Whether data version 5 without feature flag 1 is read in the layout of v4, as tensorizer 2.12 does.",
        {"TZR-HDR-007"},
        true,
        false}},
      {"v4-as-v5-one-record",
       {"Whether a file of data version 5 without feature flag 1 verifies in the layout of v4 if it fits "
        "v5-headers-first as well, where its hashes are wrong.",
        {"TZR-HDR-007"},
        false,
        true}},
      {"detection-terminator",
       {"Whether a missing terminator is enough to tell that a file is not in v5-long-dims.",
        {"TZR-HDR-008"},
        true,
        false}},
      {"many-dimensions",
       {"Whether a tensor with more dimensions than common tensor libraries support (32) is read.",
        {"TZR-IDX-002"},
        true,
        false}},
      {"dimension-2-63",
       {"Whether a tensor without elements may have a dimension of 2^63 or more.", {"TZR-IDX-005"}, true, false}},
      {"zero-product",
       {"Whether a dimension of 0 makes the size 0 if the product of the dimensions before it exceeds 64 bits.",
        {"TZR-IDX-005"},
        true,
        false}},
      {"data-offset-without-data",
       {"Whether a tensor without data may have a data_offset other than where its data would begin, in the "
        "headers-first layouts.",
        {"TZR-IDX-010"},
        true,
        false}},
      {"record-gaps",
       {"Whether bytes between two records, or between the index and the first record, are skipped.",
        {"TZR-IDX-012"},
        false,
        false}},
      {"entry-order",
       {"Whether the index may list the tensors in another order than the file holds them.",
        {"TZR-IDX-016"},
        true,
        false}},
      {"trailing-bytes", {"Whether bytes after the terminator are ignored.", {"TZR-IDX-016"}, true, false}},
      {"header-slack",
       {"Whether fewer than 10 bytes that belong to no field of a tensor header are skipped.",
        {"TZR-REC-004"},
        false,
        false}},
      {"respelled-name",
       {"Whether index and header may spell the same path differently.", {"TZR-REC-006"}, false, false}},
      {"terminator",
       {"Whether the terminator may be missing, or not zero.", {"TZR-TRM-001", "TZR-TRM-002"}, false, false}},
      {"minus-zero", {"Whether -0 is read as the list position 0.", {"TZR-NAM-002"}, false, false}},
      {"long-path",
       {"Whether a path of more elements than the reader's own limit is read.", {"TZR-NAM-002"}, true, false}},
      {"empty-name",
       {"Whether an empty name is read; upstream writes it, and from 2.9 on refuses to read it.",
        {"TZR-NAM-009"},
        true,
        false}},
      {"dtype-spelling",
       {"Whether a plain type may be spelled without its byte order, as f4, or by its name, as float32.",
        {"TZR-DTY-001"},
        false,
        false}},
      {"opaque-byte-order",
       {"Whether an opaque type of more than one byte may begin with |V.", {"TZR-DTY-001"}, false, false}},
      {"unknown-opaque-dtype",
       {"Whether an unknown torch name is passed on as text; it must not be looked up as an attribute.",
        {"TZR-DTY-003"},
        false,
        false}},
      {"crc32-alone", {"Whether a CRC32 without a SHA-256 is enough to verify.", {"TZR-HSH-004"}, true, true}},
      {"derivation-cost",
       {"Whether a key is derived beyond the limits of tzmark, with a memlimit below 8 GiB, an opslimit below 2^32 - 1 "
        "and fewer than 256 different derivations in the file.",
        {"TZR-CRY-015"},
        false,
        false}},
      {"no-key-without-data",
       {"Whether an encrypted file in which no tensor has data opens without a key.", {"TZR-CRY-018"}, false, false}},
      {"metadata-start",
       {"Whether the index is read from metadata_start if that is not 118.", {"TZR-SEG-003"}, true, false}},
      {"metadata-start-ignored",
       {"Whether the index is read from byte 118 if no index lies at metadata_start.", {"TZR-SEG-003"}, false, false}},
  };
  return choices;
}

std::vector<std::string> choices_in_accepted(Bytes file, const model::Secret& secret, const Description& description) {
  const auto version = description.document["data_version"].get<std::uint64_t>();
  const std::string& layout = description.layout;
  const bool one_by_one = version < 5 || layout == "v4" || has_entry_versions(layout);
  const bool has_secret = secret.key || secret.passphrase;
  std::vector<std::string> choices;
  const auto add = [&](const char* name, bool there) {
    if (there) choices.emplace_back(name);
  };
  add("v4-as-v5", version == 5 && layout == "v4");
  add("flags-before-v4", version < 4 && has_flags(file));
  add("empty-name", has_writer_defect(description, "TZR-NAM-009"));
  add("entry-order", one_by_one && has_other_order(description));
  add("trailing-bytes", one_by_one && has_trailing_bytes(description));
  add("many-dimensions", any_tensor(description, has_many_dimensions));
  add("long-path", any_tensor(description, has_long_path));
  add("crc32-alone", has_odd_hashes(file, description, lacks_sha256));
  add("dimension-2-63", any_tensor(description, has_unsigned_dimension));
  add("zero-product", one_by_one && any_tensor(description, has_product_beyond_64_bits));
  add("data-offset-without-data", !one_by_one && has_stray_data_offset(description));
  add("metadata-start", has_metadata_elsewhere(description));
  add("no-key-without-data", description.document["encrypted"] == true && !has_secret);
  return choices;
}

OpenDefects choices_in_refused(Bytes file, const Description& description) {
  OpenDefects open;
  for (const Defect& defect : description.defects) {
    if (!model::refuses_decode(defect)) continue;
    const std::string choice = open_defect(file, description, defect);
    if (choice.empty()) return {};
    if (std::ranges::find(open.choices, choice) == open.choices.end()) open.choices.push_back(choice);
    open.rules.insert(defect.rule);
  }
  return open;
}

}  // namespace tzmark::conformance::mutation
