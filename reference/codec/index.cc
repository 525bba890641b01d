// Opening: file header, index, and the geometry of the records.
#include "codec/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "bytes/cursor.h"
#include "bytes/utf8.h"
#include "format/name_tree.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

// The index is read through a window, so that a long run of zeros behind the entries costs no memory.
constexpr std::size_t kWindowBytes = 1 << 20;
static_assert(kWindowBytes > 2 * kIndexEntryBytesMax);

class IndexWindow {
 public:
  IndexWindow(File& file, std::uint64_t begin, std::uint64_t length)
      : file_(file), next_(begin), end_(begin + length), buffer_(std::min<std::uint64_t>(kWindowBytes, length)) {}

  // What follows the position, at least one whole entry of it unless the index ends before.
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

// In v1 to v4 a record is a header and its data, and records follow the index without a gap. So the index alone tells
// where every header ends, and a record that overlaps or leaves a gap shows before any header is read.
void check_geometry(const IndexEntry& entry, const Index& index, std::uint64_t file_bytes) {
  const std::uint64_t records_begin = index.begin + index.length;
  if (entry.header_offset < records_begin || entry.header_offset >= file_bytes) {
    throw Error(ErrorCode::kIndexHeaderOffset,
                fmt::format("the header offset {} is not between the index and the file's end", entry.header_offset),
                entry.header_offset_at);
  }
  if (entry.data_offset < entry.header_offset || entry.data_offset - entry.header_offset < sizeof(std::uint64_t)) {
    throw Error(
        ErrorCode::kIndexDataOffset,
        fmt::format("the data offset {} leaves no room for the header at {}", entry.data_offset, entry.header_offset),
        entry.data_offset_at);
  }
  if (entry.data_offset > file_bytes || entry.data_length > file_bytes - entry.data_offset) {
    throw Error(
        ErrorCode::kIndexDataPastEnd,
        fmt::format("{} bytes of data at {} in a file of {} bytes", entry.data_length, entry.data_offset, file_bytes),
        entry.data_offset > file_bytes ? entry.data_offset_at : entry.data_length_at);
  }
}

void read_entries(File& file, Index& index) {
  IndexWindow window(file, index.begin, index.length);
  NameTree names;
  IndexEntry entry;
  // Names stay in the table, whose text may move while it grows; the tree is built when it is complete.
  std::vector<std::uint64_t> name_positions;
  std::string last_wire;
  Dtype dtype;
  for (std::uint64_t i = 0; i < index.header.tensor_count; ++i) {
    const auto bytes = window.view();
    ByteReader reader(bytes, window.file_position(), ErrorCode::kIndexEntryPastEnd, "the index");
    decode_index_entry(reader, entry);
    // Most tensors of a file share one dtype.
    if (i == 0 || entry.dtype != last_wire) {
      dtype = parse_dtype(entry.dtype, entry.dtype_at);
      last_wire = entry.dtype;
    }
    check_entry(entry, dtype, index);
    check_geometry(entry, index, file.size());
    index.tensors.add(entry, dtype);
    name_positions.push_back(entry.name_at);
    window.advance(reader.position());
  }
  index.used = window.file_position() - index.begin;
  for (auto rest = window.view(); !rest.empty(); rest = window.view()) {
    const auto nonzero = std::ranges::find_if(rest, [](std::byte b) { return b != std::byte{0}; });
    if (nonzero != rest.end()) {
      throw Error(ErrorCode::kIndexPadding,
                  fmt::format("the index goes on behind the last of its {} entries", index.header.tensor_count),
                  window.file_position() + static_cast<std::uint64_t>(nonzero - rest.begin()));
    }
    window.advance(rest.size());
  }
  for (std::size_t i = 0; i < index.tensors.size(); ++i) names.add(index.tensors[i].name, name_positions[i]);
}

// A data offset that does not follow its header makes the next record seem to overlap or to leave a gap. Says what is
// really wrong: called before such an error is thrown about what comes behind the tensor.
void blame_data_offset(File& file, const TensorInfo& tensor) {
  std::array<std::byte, sizeof(std::uint64_t)> raw;
  file.read_at(tensor.header_offset, std::span<std::byte>(raw));
  const auto header_length = load<std::uint64_t>(raw, 0);
  if (header_length != tensor.data_offset - tensor.header_offset) {
    throw Error(ErrorCode::kIndexDataOffset,
                fmt::format("the header of '{}' has {} bytes, but its data begins {} bytes behind the header's start",
                            display_path(tensor.path()), header_length, tensor.data_offset - tensor.header_offset),
                tensor.header_offset);
  }
}

void check_records(File& file, Index& index) {
  const TensorTable& tensors = index.tensors;
  bool in_order = true;
  for (std::size_t i = 1; i < tensors.size() && in_order; ++i) {
    in_order = tensors[i - 1].header_offset < tensors[i].header_offset;
  }
  if (!in_order) {
    index.file_order.resize(tensors.size());
    std::iota(index.file_order.begin(), index.file_order.end(), 0U);
    std::ranges::stable_sort(index.file_order, {}, [&](std::uint32_t i) { return tensors[i].header_offset; });
  }
  std::uint64_t position = index.begin + index.length;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo tensor = tensors[in_order ? i : index.file_order[i]];
    if (tensor.header_offset != position && i > 0) {
      blame_data_offset(file, tensors[in_order ? i - 1 : index.file_order[i - 1]]);
    }
    if (tensor.header_offset < position) {
      throw Error(ErrorCode::kIndexOverlap,
                  fmt::format("the record of '{}' begins before the one in front of it ends, at {}",
                              display_path(tensor.path()), position),
                  tensor.header_offset);
    }
    if (tensor.header_offset > position) {
      throw Error(ErrorCode::kIndexGap,
                  fmt::format("{} bytes in front of '{}' belong to no tensor", tensor.header_offset - position,
                              display_path(tensor.path())),
                  position);
    }
    position = tensor.data_offset + tensor.data_length;
  }
  index.terminator_at = position;
  const TensorInfo last = tensors[in_order ? tensors.size() - 1 : index.file_order.back()];
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

}  // namespace

Index read_index(File& file) {
  Index index;
  const std::uint64_t file_bytes = file.size();
  std::array<std::byte, kClassicIndexBegin> head{};
  const auto head_bytes = static_cast<std::size_t>(std::min<std::uint64_t>(head.size(), file_bytes));
  file.read_at(0, MutableBuffer(head.data(), head_bytes));
  index.header = decode_file_header(std::span(head).first(std::min(head_bytes, kFileHeaderBytes)));
  if (index.header.data_version > data_version(Layout::kV4)) {
    throw Error(ErrorCode::kUnavailable, "this version of tzmark does not read data version 5",
                offsetof(FileHeaderWire, data_version));
  }
  index.layout = static_cast<Layout>(index.header.data_version);
  if (head_bytes < head.size()) {
    throw Error(ErrorCode::kIndexTruncated, "the file ends inside the length of its index", file_bytes);
  }
  index.begin = kClassicIndexBegin;
  index.length = load<std::uint64_t>(head, kFileHeaderBytes);
  if (index.length > file_bytes - index.begin) {
    throw Error(ErrorCode::kIndexTruncated,
                fmt::format("an index of {} bytes in a file of {} bytes", index.length, file_bytes), kFileHeaderBytes);
  }
  if (index.header.tensor_count > index.length / kIndexEntryBytesMin) {
    throw Error(ErrorCode::kIndexEntryPastEnd,
                fmt::format("{} entries do not fit in an index of {} bytes", index.header.tensor_count, index.length),
                offsetof(FileHeaderWire, tensor_count));
  }
  if (index.header.tensor_count > std::numeric_limits<std::uint32_t>::max()) {
    throw Error(ErrorCode::kResource, "more than 2^32 tensors");
  }
  read_entries(file, index);
  check_records(file, index);
  return index;
}

}  // namespace tzmark
