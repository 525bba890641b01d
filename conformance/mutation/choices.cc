// Where the format leaves a choice to readers; see choices.h.
#include "mutation/choices.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "model/dtypes.h"
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
// The limit of tensor libraries.
constexpr std::size_t kDimsMax = 32;
// Less than any reader's stack holds.
constexpr std::size_t kPathElementsMax = 64;

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

// A name that is right but for numbers of more than 64 bits, a minus sign in front of a zero, or half a surrogate pair.
bool is_open_structured_name(std::string name) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::string tame;
  bool in_string = false;
  for (std::size_t i = 0; i < name.size();) {
    if (name[i] == '"') in_string = !in_string;
    if (name[i] == '\\' && i + 1 < name.size()) {
      const bool surrogate = i + 5 < name.size() && name[i + 1] == 'u' && (name[i + 2] | 0x20) == 'd';
      tame += surrogate ? "x" : name.substr(i, 2);
      i += surrogate ? 6 : 2;
      continue;
    }
    if (!in_string && name[i] == '-' && i + 1 < name.size() && name[i + 1] == '0') {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (!in_string && end < name.size() && is_digit(name[end])) ++end;
    if (end - i > 19 && name[i] != '0') {
      tame += '1';
      i = end;
      continue;
    }
    tame += name[i++];
  }
  return tame != name && model::parse_name(tame, 2).broken_rule.empty();
}

bool is_open_dtype(std::string_view text) {
  static const std::set<std::string_view> names = {"bool",    "int8",    "int16",     "int32",     "int64",
                                                   "uint8",   "uint16",  "uint32",    "uint64",    "float16",
                                                   "float32", "float64", "complex64", "complex128"};
  return names.contains(text) || model::dtype_of("<" + std::string(text)).broken_rule.empty();
}

bool has_entry_versions(std::string_view layout) { return layout == "v5-long-dims" || layout == "v5-flagged-dims"; }

// The choice that a defect leaves; empty if none.
std::string open_defect(Bytes file, const Description& description, const Defect& defect) {
  if (!defect.offset) return "";
  const std::string& layout = description.layout;
  const Field* field = field_at(description, *defect.offset);
  if (defect.rule == "TZR-IDX-003" && layout != "v5-long-dims") {
    return "Whether bytes other than zero after the last entry of the index are an error or are ignored.";
  }
  if (defect.rule == "TZR-IDX-012") {
    return "Whether bytes that belong to no tensor are skipped by the offsets of the index or refused.";
  }
  if (defect.rule == "TZR-TRM-001" || defect.rule == "TZR-TRM-002") {
    return "Whether a reader that goes by the index asks for the terminator.";
  }
  if (defect.rule == "TZR-REC-004") {
    const bool plain = defect.message.find("belong to no field") != std::string::npos && field &&
                       field->name == "no field" && field->size < kCryptBlockBytesMin;
    return plain ? "Whether unexplained bytes between the hashes and data_length are skipped or refused." : "";
  }
  if (!field) return "";
  if (defect.rule == "TZR-IDX-005") {
    const Field* length = field_of(description, field->structure, "data_length");
    return length && length->value == "0"
               ? "Whether a meta tensor of 2^63 bytes or more is listed or refused; it is not one without elements."
               : "";
  }
  if (defect.rule == "TZR-REC-006") {
    const Field* other = field_of(description, entry_of(field->structure), "name");
    const Field* kind = field_of(description, entry_of(field->structure), "kind");
    if (!other || !kind) return "";
    const std::uint64_t number = model::little_endian(file.subspan(kind->offset, 1));
    const auto path = model::parse_name(text_at(file, *field), number).path;
    return path && path == model::parse_name(text_at(file, *other), number).path
               ? "Whether names have to agree as bytes or as paths."
               : "";
  }
  const std::string_view text = text_at(file, *field);
  if (defect.rule == "TZR-DTY-001") {
    return is_open_dtype(text) ? "Whether a type without a byte order mark, which numpy would take, is read or refused."
                               : "";
  }
  if (defect.rule == "TZR-DTY-002") {
    const bool open = text.starts_with("|V") && model::dtype_of("<" + std::string(text.substr(1))).broken_rule.empty();
    return open ? "Whether an opaque type of more than one byte may say that it has no order." : "";
  }
  if (defect.rule == "TZR-DTY-003") {
    const std::string_view name = text.substr(std::min(text.find('\0'), text.size() - 1) + 1);
    const bool open = name.starts_with("torch.") && name.size() > 6;
    return open ? "Whether an unknown torch dtype is passed through or refused." : "";
  }
  if (defect.rule == "TZR-NAM-002") {
    return is_open_structured_name(std::string(text))
               ? "Whether a number beyond 64 bits, or a string that has no UTF-8 form, is read or refused."
               : "";
  }
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

// Whether the positions of some list do not count from 0.
bool has_holes(const Json& tensors) {
  std::map<std::string, std::set<std::uint64_t>> positions;
  for (const Json& tensor : tensors) {
    Json prefix = Json::array();
    for (const Json& element : tensor["path"]) {
      if (element.is_number()) positions[prefix.dump(-1, ' ', true)].insert(element.get<std::uint64_t>());
      prefix.push_back(element);
    }
  }
  return std::ranges::any_of(positions,
                             [](const auto& list) { return *list.second.rbegin() + 1 != list.second.size(); });
}

bool has_writer_defect(const Description& description, std::string_view rule) {
  return std::ranges::any_of(description.defects, [&](const Defect& defect) { return defect.rule == rule; });
}

bool any_tensor(const Description& description, bool (*test)(const Json&)) {
  const Json& tensors = description.document["tensors"];
  return std::ranges::any_of(tensors, test);
}

std::string wire_dtype(const Json& tensor) { return tensor["wire_dtype"].get<std::string>(); }

bool is_opaque(const Json& tensor) { return wire_dtype(tensor).find('\0') != std::string::npos; }

bool is_byte_with_order(const Json& tensor) {
  const std::string text = wire_dtype(tensor);
  return text[0] != '|' && (text.substr(1) == "b1" || text.substr(1) == "i1" || text.substr(1) == "u1");
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

bool is_doubled(const std::vector<std::uint64_t>& types) {
  return std::set<std::uint64_t>(types.begin(), types.end()).size() < types.size();
}

bool lacks_sha256(const std::vector<std::uint64_t>& types) { return std::ranges::find(types, 1) == types.end(); }

// A key derivation after the cipher.
bool derives_late(const std::vector<std::uint64_t>& chunk_types) {
  return chunk_types.size() > 1 && chunk_types.front() != 1 && chunk_types.back() == 1;
}

bool has_late_derivation(Bytes file, const Description& description) {
  const auto lists = numbers_by_tensor(file, description, "chunk_type");
  return std::ranges::any_of(lists, derives_late);
}

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

bool has_flags(Bytes file) {
  const Bytes flags = file.subspan(9, 32);
  return std::ranges::any_of(flags, [](std::byte b) { return b != std::byte{0}; });
}

}  // namespace

std::optional<std::string> choice_in_accepted(Bytes file, const model::Secret& secret, const Description& description) {
  const auto version = description.document["data_version"].get<std::uint64_t>();
  const std::string& layout = description.layout;
  const bool one_by_one = version < 5 || layout == "v4" || has_entry_versions(layout);
  if (version == 5 && layout == "v4") {
    return std::string(kChoiceOfClassicVersion5);
  }
  if (version < 4 && has_flags(file)) {
    return "Whether the bytes of the feature flags are ignored or must be zero before data version 4.";
  }
  if (has_writer_defect(description, "TZR-NAM-009")) {
    return "Whether an empty name, which only old writers store, is read or refused.";
  }
  if (has_writer_defect(description, "TZR-NAM-010")) {
    return "Whether a structured name that no writer would spell so is read by its meaning.";
  }
  if (version == 1 && any_tensor(description, is_opaque)) {
    return "Whether a reader asks that the data version is high enough for the dtypes, which binds writers only.";
  }
  if (one_by_one && has_other_order(description)) {
    return "Whether the index may list the tensors in another order than the file holds them.";
  }
  if (one_by_one && has_writer_defect(description, "TZR-IDX-016")) {
    return "Whether bytes after the terminator are ignored or refused.";
  }
  if (any_tensor(description, [](const Json& tensor) { return tensor["shape"].size() > kDimsMax; })) {
    return "Whether a tensor with more dimensions than the tensor library has is read or refused.";
  }
  if (has_holes(description.document["tensors"])) {
    return "Whether the list positions of siblings have to count from 0 without a hole.";
  }
  if (any_tensor(description, [](const Json& tensor) { return tensor["path"].size() > kPathElementsMax; })) {
    return "How deep a path may be before it is refused.";
  }
  if (has_odd_hashes(file, description, is_doubled)) {
    return "Whether a second hash of the same type is checked as well or refused.";
  }
  if (has_odd_hashes(file, description, lacks_sha256)) {
    return "Whether a CRC32 alone, weaker than what any writer stores, is enough to verify.";
  }
  if (version >= 2 && one_by_one &&
      any_tensor(description, [](const Json& tensor) { return wire_dtype(tensor).starts_with('>'); })) {
    return "Whether big-endian data is read, from a layout whose writers never stored any.";
  }
  if (any_tensor(description, is_byte_with_order)) {
    return "Whether a type of one byte may have a byte order.";
  }
  if (any_tensor(description, has_unsigned_dimension)) {
    return "Whether a dimension that no signed number of 64 bits holds is read, in a tensor without elements.";
  }
  if (one_by_one && any_tensor(description, has_product_beyond_64_bits)) {
    return "Whether the product of a shape may leave 64 bits before a 0 makes it small.";
  }
  if (has_late_derivation(file, description)) {
    return "Whether the key derivation may stand behind the cipher.";
  }
  if (has_metadata_elsewhere(description)) {
    return "Whether the index is read from where metadata_start says, or from behind the layout section.";
  }
  const bool has_secret = secret.key || secret.passphrase;
  if (description.document["encrypted"] == true && !has_secret) {
    return "Whether a key is asked for where there is nothing to decrypt.";
  }
  return std::nullopt;
}

std::optional<OpenDefects> choice_in_refused(Bytes file, const Description& description) {
  OpenDefects open;
  for (const Defect& defect : description.defects) {
    if (!model::refuses_decode(defect)) continue;
    const std::string choice = open_defect(file, description, defect);
    if (choice.empty()) return std::nullopt;
    if (open.choice.empty()) open.choice = choice;
    open.rules.insert(defect.rule);
  }
  return open.rules.empty() ? std::nullopt : std::optional(open);
}

}  // namespace tzmark::conformance::mutation
