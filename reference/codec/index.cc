// Reads the file header, detects the layout, reads the index, and checks the offsets of headers and data.
#include "codec/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "bytes/cursor.h"
#include "bytes/utf8.h"
#include "codec/detached_data.h"
#include "codec/foreign_file.h"
#include "codec/header_reading.h"
#include "format/name_tree.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

// The index is read through a window, so that padding after the entries takes no memory.
constexpr std::size_t kWindowBytes = 1 << 20;
static_assert(kWindowBytes > 2 * kIndexEntryBytesMax);

class IndexWindow {
 public:
  IndexWindow(File& file, std::uint64_t begin, std::uint64_t length)
      : file_(file), next_(begin), end_(begin + length), buffer_(std::min<std::uint64_t>(kWindowBytes, length)) {}

  // The bytes from the position on: at least one whole entry, unless the index ends before.
  std::span<const std::byte> view() {
    if (filled_ - position_ < kIndexEntryBytesMax && next_ < end_) {
      std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(position_),
                buffer_.begin() + static_cast<std::ptrdiff_t>(filled_), buffer_.begin());
      filled_ -= position_;
      position_ = 0;
      const auto more = static_cast<std::size_t>(std::min<std::uint64_t>(buffer_.size() - filled_, end_ - next_));
      file_.read_at(next_, {buffer_.data() + filled_, more});
      next_ += more;
      filled_ += more;
    }
    return std::span(buffer_).subspan(position_, filled_ - position_);
  }
  void advance(std::size_t bytes) { position_ += bytes; }
  std::uint64_t file_position() const { return next_ - (filled_ - position_); }

 private:
  File& file_;
  std::uint64_t next_;  // file position of what comes after the buffer
  const std::uint64_t end_;
  std::vector<std::byte> buffer_;
  std::size_t position_ = 0;
  std::size_t filled_ = 0;
};

void check_entry(const IndexEntry& entry, const Dtype& dtype, const Index& index) {
  if (const auto bad = find_invalid_utf8(entry.name)) {
    throw Error(ErrorCode::kNameUtf8, "a name is not valid UTF-8", entry.name_at + *bad);
  }
  if (entry.name.starts_with(kStructuredNameMark) && entry.kind != Kind::kStateDict) {
    throw Error(ErrorCode::kNameKind, fmt::format("a structured name on a tensor of kind {}", kind_name(entry.kind)),
                entry.kind_at);
  }
  const auto nominal = nominal_bytes(entry.shape(), dtype.item_bytes);
  if (!nominal) {
    throw Error(ErrorCode::kIndexShapeOverflow, "shape and dtype give 2^63 bytes or more", entry.shape_at);
  }
  if (entry.data_length == *nominal) return;
  if (entry.data_length != 0) {
    throw Error(ErrorCode::kIndexDataLength,
                fmt::format("data_length is {}, but shape and dtype give {}", entry.data_length, *nominal),
                entry.data_length_at);
  }
  if (index.header.data_version < 4) {
    throw Error(ErrorCode::kIndexMetaVersion,
                fmt::format("no data for {} bytes, in data version {}", *nominal, index.header.data_version),
                entry.data_length_at);
  }
}

// Turns offsets that are relative to a segment into those of the file. A sum beyond 2^64 becomes the largest number,
// which lies in no file.
void make_absolute(IndexEntry& entry, const Segments& segments) {
  const auto add = [](std::uint64_t& offset, std::uint64_t base) {
    if (__builtin_add_overflow(offset, base, &offset)) offset = std::numeric_limits<std::uint64_t>::max();
  };
  add(entry.header_offset, segments.headers_begin);
  add(entry.data_offset, segments.data_begin);
}

// The sizes of the files with headers and with data, which differ for detached data.
struct FileSizes {
  std::uint64_t headers, data;
};

// What can be said of one tensor's place without looking at the others.
void check_place(const IndexEntry& entry, const Index& index, FileSizes sizes) {
  const bool segments = has_segments(index.layout);
  const std::uint64_t headers_begin = segments ? index.segments.headers_begin : index.begin + index.length;
  const std::uint64_t headers_end = segments ? index.segments.headers_end : sizes.headers;
  if (entry.header_offset < headers_begin || entry.header_offset >= headers_end ||
      (headers_first(index.layout) && headers_end - entry.header_offset < sizeof(std::uint64_t))) {
    throw Error(
        segments ? ErrorCode::kSegmentHeader : ErrorCode::kIndexHeaderOffset,
        fmt::format("a header at {}, but headers lie from {} to {}", entry.header_offset, headers_begin, headers_end),
        entry.header_offset_at);
  }
  if (!headers_first(index.layout) &&
      (entry.data_offset < entry.header_offset || entry.data_offset - entry.header_offset < sizeof(std::uint64_t))) {
    throw Error(
        ErrorCode::kIndexDataOffset,
        fmt::format("the data offset {} leaves no room for the header at {}", entry.data_offset, entry.header_offset),
        entry.data_offset_at);
  }
  if (entry.data_offset > sizes.data || entry.data_length > sizes.data - entry.data_offset) {
    throw Error(
        ErrorCode::kIndexDataPastEnd,
        fmt::format("{} bytes of data at {} in a file of {} bytes", entry.data_length, entry.data_offset, sizes.data),
        entry.data_offset > sizes.data ? entry.data_offset_at : entry.data_length_at);
  }
}

void read_entries(File& file, FileSizes sizes, Index& index) {
  IndexWindow window(file, index.begin, index.length);
  NameTree names;
  IndexEntry entry;
  // The tree refers to names in the table, which moves while it grows; so the tree is built afterwards.
  std::vector<std::uint64_t> name_positions;
  std::string last_wire;
  Dtype dtype;
  for (std::uint64_t i = 0; i < index.header.tensor_count; ++i) {
    const auto bytes = window.view();
    ByteReader reader(bytes, window.file_position(), ErrorCode::kIndexEntryPastEnd, "the index");
    decode_index_entry(reader, index.layout, entry);
    if (has_segments(index.layout)) make_absolute(entry, index.segments);
    // Most tensors of a file share one dtype.
    if (i == 0 || entry.dtype != last_wire) {
      dtype = parse_dtype(entry.dtype, entry.dtype_at);
      last_wire = entry.dtype;
    }
    check_entry(entry, dtype, index);
    index.tensors.add(entry, dtype);
    check_place(entry, index, sizes);
    name_positions.push_back(entry.name_at);
    window.advance(reader.position());
  }
  index.used = window.file_position() - index.begin;
  if (headers_first(index.layout) && index.used != index.length) {
    throw Error(
        ErrorCode::kIndexFill,
        fmt::format("{} entries take {} bytes of an index of {}", index.header.tensor_count, index.used, index.length),
        window.file_position());
  }
  for (auto rest = window.view(); !rest.empty(); rest = window.view()) {
    const auto nonzero = std::ranges::find_if(rest, [](std::byte b) { return b != std::byte{0}; });
    if (nonzero != rest.end()) {
      throw Error(ErrorCode::kIndexPadding,
                  fmt::format("nonzero bytes follow the last of {} index entries", index.header.tensor_count),
                  window.file_position() + static_cast<std::uint64_t>(nonzero - rest.begin()));
    }
    window.advance(rest.size());
  }
  index.tensors.shrink_to_fit();
  for (std::size_t i = 0; i < index.tensors.size(); ++i) names.add(index.tensors[i].name, name_positions[i]);
}

// Reports a data offset that does not follow its header, which makes the next record seem to overlap or to leave a gap.
// Called before such an error is thrown for what follows the tensor.
void blame_data_offset(File& file, const TensorInfo& tensor) {
  std::array<std::byte, sizeof(std::uint64_t)> raw;
  file.read_at(tensor.header_offset, std::span<std::byte>(raw));
  const auto header_length = load<std::uint64_t>(raw, 0);
  if (header_length != tensor.data_offset - tensor.header_offset) {
    throw Error(ErrorCode::kIndexDataOffset,
                fmt::format("the header of '{}' has {} bytes, but its data begins {} bytes after the header's start",
                            display_path(tensor.path()), header_length, tensor.data_offset - tensor.header_offset),
                tensor.header_offset);
  }
}

// Sorts tensors by an offset; returns an empty vector if they are in that order already.
std::vector<std::uint32_t> order_by(const TensorTable& tensors, std::uint64_t TensorInfo::*offset) {
  const auto key = [&](std::size_t i) { return tensors[i].*offset; };
  std::size_t sorted = 1;
  while (sorted < tensors.size() && key(sorted - 1) < key(sorted)) ++sorted;
  if (sorted == tensors.size()) return {};
  std::vector<std::uint32_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, {}, key);
  return order;
}

// Checks layouts whose records, a header and its data each, follow the index without a gap. The index alone determines
// where every header ends, so overlaps and gaps are found before any header is read.
void check_records(File& file, Index& index) {
  const TensorTable& tensors = index.tensors;
  std::uint64_t position = index.begin + index.length;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo tensor = tensors[index.in_file_order(i)];
    if (tensor.header_offset != position && i > 0) blame_data_offset(file, tensors[index.in_file_order(i - 1)]);
    if (tensor.header_offset < position) {
      throw Error(ErrorCode::kIndexOverlap,
                  fmt::format("the record of '{}' begins before the previous one ends, at {}",
                              display_path(tensor.path()), position),
                  tensor.header_offset);
    }
    if (tensor.header_offset > position) {
      throw Error(ErrorCode::kIndexGap,
                  fmt::format("{} bytes before '{}' belong to no tensor", tensor.header_offset - position,
                              display_path(tensor.path())),
                  position);
    }
    position = tensor.data_offset + tensor.data_length;
  }
  const TensorInfo last = tensors[index.in_file_order(tensors.size() - 1)];
  if (file.size() - position < kTerminatorBytes) {
    blame_data_offset(file, last);
    throw Error(ErrorCode::kTerminatorMissing, "the file ends without its terminator", file.size());
  }
  std::array<std::byte, kTerminatorBytes> terminator;
  file.read_at(position, std::span<std::byte>(terminator));
  if (load<std::uint64_t>(terminator, 0) != 0) {
    blame_data_offset(file, last);
    throw Error(ErrorCode::kTerminatorNonzero, "the terminator is not zero", position);
  }
}

// Checks the headers-first layouts, in which gaps are allowed. Only a header itself contains its length; that it ends
// before the next one is checked when it is read.
void check_headers_and_data(Index& index) {
  const TensorTable& tensors = index.tensors;
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    const TensorInfo before = tensors[index.in_file_order(i - 1)];
    const TensorInfo tensor = tensors[index.in_file_order(i)];
    if (tensor.header_offset - before.header_offset < sizeof(std::uint64_t)) {
      throw Error(
          ErrorCode::kIndexOverlap,
          fmt::format("the headers of '{}' and '{}' overlap", display_path(before.path()), display_path(tensor.path())),
          tensor.header_offset);
    }
  }
  const std::vector<std::uint32_t> by_data = order_by(tensors, &TensorInfo::data_offset);
  std::uint64_t data_begin = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t position = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo tensor = tensors[by_data.empty() ? i : by_data[i]];
    if (tensor.data_length == 0) continue;
    if (tensor.data_offset < position) {
      throw Error(ErrorCode::kIndexOverlap,
                  fmt::format("the data of '{}' begins before the previous data ends, at {}",
                              display_path(tensor.path()), position),
                  tensor.data_offset);
    }
    data_begin = std::min(data_begin, tensor.data_offset);
    position = tensor.data_offset + tensor.data_length;
  }
  if (has_segments(index.layout)) {
    index.headers_end = index.segments.headers_end;
    return;
  }
  const TensorInfo last = tensors[index.in_file_order(tensors.size() - 1)];
  if (data_begin <= last.header_offset) {
    throw Error(ErrorCode::kIndexDataBeforeHeaders,
                fmt::format("data begins at {}, before the header of '{}'", data_begin, display_path(last.path())),
                last.header_offset);
  }
  index.has_data = position > 0;
  index.headers_end = std::min(index.headers_end, data_begin);
}

// Reads the length of the index and its entries, and checks them. head: the first bytes of the file, which have the
// length in most layouts.
void read_rest(File& file, FileSizes sizes, std::span<const std::byte> head, std::uint64_t length_at,
               std::uint64_t index_end, Index& index) {
  if (index_end - length_at < sizeof(std::uint64_t)) {
    throw Error(ErrorCode::kIndexTruncated, "the file ends inside the length of its index", sizes.headers);
  }
  std::array<std::byte, sizeof(std::uint64_t)> raw;
  if (length_at + raw.size() <= head.size()) {
    std::ranges::copy(head.subspan(static_cast<std::size_t>(length_at), raw.size()), raw.begin());
  } else {
    file.read_at(length_at, std::span<std::byte>(raw));
  }
  index.begin = length_at + raw.size();
  index.length = load<std::uint64_t>(raw, 0);
  if (index.length > index_end - index.begin) {
    throw Error(has_segments(index.layout) ? ErrorCode::kSegmentIndex : ErrorCode::kIndexTruncated,
                fmt::format("an index of {} bytes where there are {}", index.length, index_end - index.begin),
                length_at);
  }
  const std::size_t entry_bytes_min = kIndexEntryBytesMin + (has_entry_versions(index.layout) ? kEntryVersionBytes : 0);
  if (index.header.tensor_count > index.length / entry_bytes_min) {
    throw Error(ErrorCode::kIndexEntryPastEnd,
                fmt::format("{} entries do not fit in an index of {} bytes", index.header.tensor_count, index.length),
                offsetof(FileHeaderWire, tensor_count));
  }
  if (index.header.tensor_count > std::numeric_limits<std::uint32_t>::max()) {
    throw Error(ErrorCode::kResource, "more than 2^32 tensors");
  }
  index.headers_end = sizes.headers;
  read_entries(file, sizes, index);
  index.file_order = order_by(index.tensors, &TensorInfo::header_offset);
  index.places.resize(index.file_order.size());
  for (std::size_t i = 0; i < index.places.size(); ++i)
    index.places[index.file_order[i]] = static_cast<std::uint32_t>(i);
  if (headers_first(index.layout)) {
    check_headers_and_data(index);
  } else {
    check_records(file, index);
  }
}

void read_segments(File& file, FileSizes sizes, std::span<const std::byte> head, Index& index) {
  index.layout = Layout::kV5Segments;
  index.segments = decode_layout_section(head);
  const Segments& s = index.segments;
  const std::array bounds = {std::uint64_t{kLayoutSectionEnd}, s.metadata_begin, s.metadata_end, s.headers_begin,
                             s.headers_end};
  if (!std::ranges::is_sorted(bounds) || s.headers_end > sizes.headers || s.data_begin > sizes.data ||
      s.data_begin < (index.header.detached_data ? sizeof(DetachedDataHeaderWire) : s.headers_end)) {
    throw Error(ErrorCode::kSegmentOrder,
                fmt::format("metadata from {} to {}, headers from {} to {}, data from {}, in a file of {} bytes",
                            s.metadata_begin, s.metadata_end, s.headers_begin, s.headers_end, s.data_begin, sizes.data),
                kLayoutSectionBegin);
  }
  if (s.metadata_end - s.metadata_begin < sizeof(std::uint64_t)) {
    throw Error(ErrorCode::kSegmentIndex, "the metadata segment has no room for the length of the index",
                kLayoutSectionBegin + offsetof(LayoutSectionWire, metadata_end));
  }
  read_rest(file, sizes, head, s.metadata_begin, s.metadata_end, index);
}

bool begins_with_entry_version(File& file) {
  std::array<std::byte, kEntryVersionBytes> raw;
  if (file.size() < kClassicIndexBegin + raw.size()) return false;
  file.read_at(kClassicIndexBegin, std::span<std::byte>(raw));
  const auto version = load<std::uint32_t>(raw, 0);
  return version == kEntryVersionNarrow || version == kEntryVersionWide;
}

// Reads data version 5 without a layout section and without flag 1: tries both layouts, of which exactly one must fit.
// An index that fits neither may be one of layout v4, which releases from 2.12 on accept under data version 5, too.
Index read_either(File& file, FileSizes sizes, std::span<const std::byte> head, const FileHeader& header) {
  struct Reading {
    Index index;
    std::optional<Error> error;
  };
  const auto read_as = [&](Layout layout) {
    Reading reading;
    reading.index.header = header;
    reading.index.layout = layout;
    try {
      read_rest(file, sizes, head, kFileHeaderBytes, sizes.headers, reading.index);
    } catch (const Error& error) {
      if (error.error_class() != ErrorClass::kFile) throw;
      reading.error = error;
    }
    return reading;
  };
  Reading plain = read_as(Layout::kV5HeadersFirst);
  Reading tagged = read_as(Layout::kV5LongDims);
  const auto check_headers = [&](Reading& reading) {
    TensorHeader decoded;
    try {
      for (std::size_t i = 0; i < reading.index.tensors.size(); ++i) {
        decode_header(reading.index, i, read_header(file, reading.index, i), decoded);
      }
    } catch (const Error& error) {
      if (error.error_class() != ErrorClass::kFile) throw;
      reading.error = error;
      // Its index is no evidence of the intended layout any more.
      reading.index.tensors = {};
    }
  };
  // Usually only one index is valid. If both are, the headers decide.
  const bool both_fit = !plain.error && !tagged.error;
  if (both_fit) {
    check_headers(plain);
    check_headers(tagged);
  } else if (plain.error) {
    Reading classic = read_as(Layout::kV4);
    if (!classic.error && !tagged.error) check_headers(tagged);
    if (!classic.error && tagged.error) return std::move(classic.index);
  }
  if (!plain.error && !tagged.error) {
    throw Error(ErrorCode::kHeaderTwoLayouts, "index and headers are valid as v5-headers-first and as v5-long-dims",
                kFileHeaderBytes);
  }
  if (!plain.error) return std::move(plain.index);
  if (!tagged.error) return std::move(tagged.index);
  // If the intended layout is evident, report its error: an index that begins with an entry version is v5-long-dims,
  // and one whose first entry is valid is v5-headers-first.
  if (begins_with_entry_version(file) && !both_fit) throw *tagged.error;
  if (plain.index.tensors.size() > 0) throw *plain.error;
  if (plain.error->code() == tagged.error->code() && plain.error->offset() == tagged.error->offset()) {
    throw *plain.error;
  }
  throw Error(ErrorCode::kHeaderNoLayout,
              fmt::format("it is not v5-segments; as v5-headers-first: {}; as v5-long-dims: {}", plain.error->what(),
                          tagged.error->what()),
              kFileHeaderBytes);
}

bool is_of(const FileHeader& header, const LayoutTraits& traits) {
  return traits.data_version == header.data_version && traits.feature_flag == header.layout_flag;
}

// Whether the header leaves several layouts possible.
bool is_told_by_content(const FileHeader& header) {
  return std::ranges::count_if(kLayoutTraits, [&](const LayoutTraits& traits) { return is_of(header, traits); }) > 1;
}

// REQUIRES: one layout is possible.
Layout layout_of(const FileHeader& header) {
  return std::ranges::find_if(kLayoutTraits, [&](const LayoutTraits& traits) { return is_of(header, traits); })->layout;
}

}  // namespace

Index read_index(File& file, File* data_file) {
  const FileSizes sizes = {file.size(), data_file != nullptr ? data_file->size() : file.size()};
  std::array<std::byte, kLayoutSectionEnd> head_bytes{};
  const auto head =
      std::span(head_bytes).first(static_cast<std::size_t>(std::min<std::uint64_t>(head_bytes.size(), sizes.headers)));
  file.read_at(0, head);
  const FileHeader header = describing_foreign(
      file, ReadAs::kTensors,
      [](ErrorCode code) { return code == ErrorCode::kHeaderTruncated || code == ErrorCode::kHeaderMagic; },
      [&] { return decode_file_header(head.first(std::min(head.size(), kFileHeaderBytes))); });
  if (header.detached_data != (data_file != nullptr)) {
    if (!header.detached_data) throw Error(ErrorCode::kUsage, "a data file was given, but the file contains its data");
    throw Error(ErrorCode::kHeaderFlags,
                "feature flag 255, which is tzmark's mark of detached data: the data is in another file, which was not "
                "given",
                offsetof(FileHeaderWire, feature_flags) + sizeof(FileHeaderWire::feature_flags) - 1);
  }
  const bool by_content = is_told_by_content(header);
  if (by_content && !has_layout_section(head) && !header.detached_data) return read_either(file, sizes, head, header);
  Index index;
  index.header = header;
  if (by_content) {
    if (header.detached_data) {
      describing_foreign(
          *data_file, ReadAs::kDetachedData, [](ErrorCode code) { return code == ErrorCode::kDetachedDataFile; },
          [&] { check_detached_data(header, *data_file); });
    }
    read_segments(file, sizes, head, index);
  } else {
    index.layout = layout_of(header);
    read_rest(file, sizes, head, kFileHeaderBytes, sizes.headers, index);
  }
  return index;
}

}  // namespace tzmark
