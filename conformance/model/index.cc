// Steps 3 to 6 of a reading: the layout section, the index with its entries, and the tree of names.
#include <algorithm>
#include <limits>
#include <utility>

#include "model/reading.h"
#include "model/text.h"

namespace tzmark::conformance::model {
namespace {

constexpr std::uint64_t kFileHeaderBytes = 65;
// The fixed fields of an entry, and the shortest dtype.
constexpr std::uint64_t kEntryLeastBytes = 29 + 3;
constexpr std::uint64_t kNominalLimitBytes = std::uint64_t{1} << 63;

// Nothing from 2^63 on.
std::optional<std::uint64_t> nominal_bytes(const std::vector<std::uint64_t>& shape, std::uint64_t item_bytes) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::uint64_t product = item_bytes;
  for (const std::uint64_t dim : shape) {
    if (product > (kNominalLimitBytes - 1) / dim) return std::nullopt;
    product *= dim;
  }
  return product < kNominalLimitBytes ? std::optional(product) : std::nullopt;
}

// What the fields of an entry mean, and whether they agree with each other.
class EntryCheck {
 public:
  EntryCheck(const Reading& reading, std::size_t tensor, Notes& notes)
      : reading_(&reading), tensor_(tensor), notes_(&notes) {}

  Tensor run(ParsedStructure entry) const {
    Tensor tensor;
    tensor.entry = std::move(entry);
    check_dtype(tensor);
    check_name(tensor);
    tensor.shape = tensor.entry.find("dim")->numbers;
    tensor.data_length = tensor.entry.find("data_length")->number;
    check_size(tensor);
    return tensor;
  }

 private:
  void defect(std::string_view rule, const Value& at, Clause clause, Content got, Content wanted = {}) const {
    notes_->defect({.rule = std::string(rule),
                    .offset = at.offset,
                    .clause = clause,
                    .structure = {kIndexEntry.name, tensor_},
                    .field = at.name,
                    .got = std::move(got),
                    .wanted = std::move(wanted)});
  }

  std::string_view text(const Value& value) const { return text_of(reading_->file.subspan(value.offset, value.size)); }

  void check_dtype(Tensor& tensor) const {
    const Value& value = *tensor.entry.find("dtype");
    tensor.dtype = dtype_of(text(value));
    if (tensor.dtype.broken_rule.empty()) return;
    const std::uint64_t right = tensor.dtype.right_item_bytes;
    defect(tensor.dtype.broken_rule, value, tensor.dtype.clause, std::string(text(value)),
           right > 0 ? Content(right) : Content());
  }

  void check_name(Tensor& tensor) const {
    const Value& value = *tensor.entry.find("name");
    tensor.name = parse_name(text(value), tensor.entry.find("kind")->number);
    if (tensor.name.broken_rule.empty()) return;
    defect(tensor.name.broken_rule, value, tensor.name.clause, std::string(text(value)));
  }

  void check_size(Tensor& tensor) const {
    const Value& length = *tensor.entry.find("data_length");
    if (tensor.dtype.item_bytes == 0) return;  // nothing can be said of a type that is none
    const std::optional<std::uint64_t> nominal = nominal_bytes(tensor.shape, tensor.dtype.item_bytes);
    tensor.meta = length.number == 0 && nominal != 0;
    if (!nominal) {
      defect("TZR-IDX-005", *tensor.entry.find("ndim"), Clause::kStated, {},
             Words{"shape and dtype give 2^63 bytes or more"});
    } else if (length.number != *nominal && length.number != 0) {
      defect("TZR-IDX-006", length, Clause::kNominalSize, length.number, *nominal);
    }
    if (tensor.meta && reading_->layout->data_version < 4) {
      defect("TZR-IDX-007", length, Clause::kStated, {}, Words{"a meta tensor in a data version before 4"});
    }
  }

  const Reading* reading_;
  std::size_t tensor_;
  Notes* notes_;
};

using Paths = std::vector<std::optional<Path>>;

// The entries, up to the first that is none.
bool read_entries(std::uint64_t tensor_count, Reading& reading, std::uint64_t& at, Paths& paths) {
  for (std::uint64_t i = 0; i < tensor_count; ++i) {
    ParsedStructure entry = reading.read({&kIndexEntry, at, reading.index_end, i}, reading.notes);
    if (!entry.whole) return false;
    Tensor tensor = EntryCheck(reading, i, reading.notes).run(std::move(entry));
    reading.places.push_back({.entry_begin = at, .data_length = tensor.data_length});
    at = tensor.entry.end;
    paths.push_back(std::move(tensor.name.path));
    if (i == 0) reading.first_entry_fits = !reading.notes.refused();
    // Zeros after the last entry can be read as entries for ever.
    if (tensor.entry.find("dtype")->size == 0) return false;
  }
  return true;
}

void check_rest(std::uint64_t at, Reading& reading) {
  const Bytes rest = reading.file.subspan(at, reading.index_end - at);
  if (reading.layout->headers_first) {
    if (rest.empty()) return;
    reading.notes.defect({.rule = "TZR-IDX-014",
                          .offset = at,
                          .clause = Clause::kRest,
                          .structure = {kIndexRoom.name},
                          .got = rest.size()});
    return;
  }
  reading.parts.push_back({&kIndexRoom, at, reading.index_end});
  const auto found = std::find_if(rest.begin(), rest.end(), [](std::byte byte) { return byte != std::byte{0}; });
  if (found == rest.end()) return;
  reading.notes.defect({.rule = "TZR-IDX-003",
                        .offset = at + (found - rest.begin()),
                        .structure = {kIndexRoom.name},
                        .field = "room",
                        .wanted = Words{"what follows the last entry is not zeros"}});
}

void check_tree(const Paths& paths, Reading& reading) {
  for (const TreeDefect& defect : tree_defects(paths)) {
    reading.notes.defect({.rule = std::string(defect.rule),
                          .offset = reading.entry(defect.tensor).find("name")->offset,
                          .clause = defect.clause,
                          .structure = {kIndexEntry.name, defect.tensor},
                          .field = "name",
                          .got = std::uint64_t{defect.other}});
  }
}

// Where the index begins and where the room for it ends; nothing if the layout section does not say.
std::optional<std::pair<std::uint64_t, std::uint64_t>> index_room(Reading& reading) {
  const std::uint64_t file_size = reading.file.size();
  if (!reading.layout->segments) return std::pair(kFileHeaderBytes, file_size);
  reading.layout_section = reading.read({&kLayoutSection, kFileHeaderBytes, file_size}, reading.notes);
  if (!reading.layout_section->whole) return std::nullopt;
  const std::uint64_t begin = reading.layout_section->find("metadata_start")->number;
  const std::uint64_t end = reading.layout_section->find("metadata_end")->number;
  if (begin > file_size) return std::nullopt;
  return std::pair(begin, std::min(std::max(begin, end), file_size));
}

}  // namespace

bool read_index(std::uint64_t tensor_count, Reading& reading) {
  const auto room = index_room(reading);
  if (!room) return false;
  const auto [begin, end] = *room;
  Defect beyond{.rule = reading.layout->segments ? "TZR-SEG-003" : "TZR-IDX-001",
                .offset = begin,
                .clause = Clause::kCut,
                .structure = {kIndexLength.name},
                .field = "index_length",
                .wanted = end};
  if (end - begin < 8) {
    reading.notes.defect(std::move(beyond));
    return false;
  }
  const ParsedStructure length = reading.read({&kIndexLength, begin, end}, reading.notes);
  const std::uint64_t index_length = length.values[0].number;
  const bool fits = index_length <= end - length.end;
  if (!fits) {
    beyond.clause = Clause::kLengthCut;
    beyond.got = index_length;
    reading.notes.defect(std::move(beyond));
  }
  reading.index_begin = length.end;
  reading.index_end = fits ? length.end + index_length : end;
  if (tensor_count > (reading.index_end - reading.index_begin) / kEntryLeastBytes) {
    reading.notes.defect({.rule = "TZR-IDX-002",
                          .offset = reading.index_begin,
                          .clause = Clause::kValue,
                          .structure = {kIndexLength.name},
                          .field = "tensor count",
                          .got = tensor_count,
                          .wanted = Words{"at most the number of entries that fit into the index"}});
  }
  std::uint64_t at = reading.index_begin;
  Paths paths;
  if (!read_entries(tensor_count, reading, at, paths) || !fits) return false;
  check_rest(at, reading);
  check_tree(paths, reading);
  return true;
}

void parse_tensors(Reading& reading) {
  for (std::size_t i = 0; i < reading.places.size(); ++i) {
    const Place& place = reading.places[i];
    Notes known = reading.notes.another();
    Tensor& tensor = reading.tensors.emplace_back(EntryCheck(reading, i, known).run(reading.entry(i)));
    static_cast<Place&>(tensor) = place;
    if (!place.header_end) continue;
    tensor.header = reading.parse({&kTensorHeader, *place.header_offset, *place.header_end, i}, known);
    tensor.header->end = *place.header_end;
  }
}

}  // namespace tzmark::conformance::model
