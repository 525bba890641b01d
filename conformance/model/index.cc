// Steps 3 to 6 of a reading: the layout section, the index with its entries, and the tree of names.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

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
      : reading_(&reading), label_(reading.label(kIndexEntry.name, tensor)), notes_(&notes) {}

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
  void defect(std::string_view rule, const Value& at, const std::string& message) const {
    notes_->defect(rule, at.offset, fmt::format("{}: {}", label_, message));
  }

  std::string_view text(const Value& value) const { return text_of(reading_->file.subspan(value.offset, value.size)); }

  void check_dtype(Tensor& tensor) const {
    const Value& value = *tensor.entry.find("dtype");
    tensor.dtype = dtype_of(text(value));
    if (tensor.dtype.broken_rule.empty()) return;
    defect(tensor.dtype.broken_rule, value, fmt::format("dtype {}: {}", in_quotes(text(value)), tensor.dtype.problem));
  }

  void check_name(Tensor& tensor) const {
    const Value& value = *tensor.entry.find("name");
    tensor.name = parse_name(text(value), tensor.entry.find("kind")->number);
    if (tensor.name.broken_rule.empty()) return;
    defect(tensor.name.broken_rule, value, fmt::format("name {}: {}", in_quotes(text(value)), tensor.name.problem));
  }

  void check_size(Tensor& tensor) const {
    const Value& length = *tensor.entry.find("data_length");
    if (tensor.dtype.item_bytes == 0) return;  // nothing can be said of a type that is none
    const std::optional<std::uint64_t> nominal = nominal_bytes(tensor.shape, tensor.dtype.item_bytes);
    tensor.meta = length.number == 0 && nominal != 0;
    if (!nominal) {
      defect("TZR-IDX-005", *tensor.entry.find("ndim"), "shape and dtype give 2^63 bytes or more");
    } else if (length.number != *nominal && length.number != 0) {
      defect("TZR-IDX-006", length,
             fmt::format("data_length is {}, and shape and dtype give {} bytes", length.number, *nominal));
    }
    if (const std::uint64_t version = reading_->layout->data_version; tensor.meta && version < 4) {
      defect("TZR-IDX-007", length, fmt::format("a meta tensor in data version {}", version));
    }
  }

  const Reading* reading_;
  std::string label_;
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
    reading.notes.defect("TZR-IDX-014", at, fmt::format("index: {} bytes follow the last entry", rest.size()));
    return;
  }
  reading.parts.push_back({&kIndexRoom, at, reading.index_end});
  const auto found = std::find_if(rest.begin(), rest.end(), [](std::byte byte) { return byte != std::byte{0}; });
  if (found == rest.end()) return;
  reading.notes.defect("TZR-IDX-003", at + (found - rest.begin()), "index: what follows the last entry is not zeros");
}

void check_tree(const Paths& paths, Reading& reading) {
  for (const TreeDefect& defect : tree_defects(paths)) {
    const char* what = defect.rule == "TZR-NAM-006"   ? "is the path of"
                       : defect.rule == "TZR-NAM-007" ? "begins with the path of"
                                                      : "has a string where there is a position in";
    reading.notes.defect(defect.rule, reading.entry(defect.tensor).find("name")->offset,
                         fmt::format("{}: its path {} {}", reading.label(kIndexEntry.name, defect.tensor), what,
                                     reading.label(kIndexEntry.name, defect.other)));
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
  const std::string_view rule = reading.layout->segments ? "TZR-SEG-003" : "TZR-IDX-001";
  if (end - begin < 8) {
    reading.notes.defect(rule, begin, "index: there is no room for index_length");
    return false;
  }
  const ParsedStructure length = reading.read({&kIndexLength, begin, end}, reading.notes);
  const std::uint64_t index_length = length.values[0].number;
  const bool fits = index_length <= end - length.end;
  if (!fits) {
    reading.notes.defect(rule, begin, fmt::format("index: its {} bytes run past byte {}", index_length, end));
  }
  reading.index_begin = length.end;
  reading.index_end = fits ? length.end + index_length : end;
  if (tensor_count > (reading.index_end - reading.index_begin) / kEntryLeastBytes) {
    reading.notes.defect("TZR-IDX-002", reading.index_begin,
                         fmt::format("index: {} entries do not fit into it", tensor_count));
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
