// The walk behind inspect --bytes. It goes from field to field by itself, so that it also shows files that the reader
// refuses.
#include "cli/annotate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "bytes/cursor.h"
#include "bytes/utf8.h"
#include "codec/index.h"
#include "tzmark/format.h"

namespace tzmark::cli {
namespace {

// Text fields are shown up to here.
constexpr std::size_t kTextBytesMax = 200;

// Takes fields off the file one after another, and tells the visitor about each.
class Walker {
 public:
  Walker(File& file, const std::function<void(const Annotation&)>& visit) : file_(file), visit_(visit) {}

  std::uint64_t position() const { return position_; }
  std::uint64_t remaining() const { return file_.size() - position_; }
  void section(std::string name) { section_ = std::move(name); }

  // Up to a position of the file. Throws if the walk is past it.
  void skip_to(std::uint64_t end, std::string_view field) {
    if (end < position_) {
      throw Error(ErrorCode::kIndexOverlap, fmt::format("{} was to begin or end here", end), position_);
    }
    skip(end - position_, field);
  }

  // A field whose bytes nobody looks at here.
  void skip(std::uint64_t length, std::string_view field, std::string value = "") {
    if (length == 0) return;
    require(length, field);
    visit_({position_, length, name_of(field), std::move(value)});
    position_ += length;
  }

  template <typename T>
  T integer(std::string_view field) {
    const T value = load<T>(peek(sizeof(T), field), 0);
    skip(sizeof(T), field, fmt::format("{}", value));
    return value;
  }

  std::string text(std::uint64_t length, std::string_view field) {
    const auto shown = static_cast<std::size_t>(std::min<std::uint64_t>(length, kTextBytesMax));
    require(length, field);
    const auto bytes = peek(shown, field);
    std::string value(as_text(bytes));
    skip(length, field, fmt::format("\"{}\"{}", printable(value), length > shown ? "..." : ""));
    return value;
  }

  std::vector<std::byte> peek(std::size_t length, std::string_view field) const {
    require(length, field);
    std::vector<std::byte> bytes(length);
    file_.read_at(position_, std::span(bytes));
    return bytes;
  }

 private:
  void require(std::uint64_t length, std::string_view field) const {
    if (length > remaining()) {
      throw Error(ErrorCode::kRecordTruncated,
                  fmt::format("{} has {} bytes, but the file has only {} more", name_of(field), length, remaining()),
                  position_);
    }
  }
  std::string name_of(std::string_view field) const {
    return section_.empty() ? std::string(field) : fmt::format("{}: {}", section_, field);
  }

  File& file_;
  const std::function<void(const Annotation&)>& visit_;
  std::uint64_t position_ = 0;
  std::string section_;
};

// What index entries and tensor headers have in common: dtype and shape.
void walk_type(Walker& walker, bool wide_dimensions) {
  const auto dtype_length = walker.integer<std::uint8_t>("dtype_length");
  walker.text(dtype_length, "dtype");
  const auto dimensions = walker.integer<std::uint8_t>("ndim");
  for (unsigned i = 0; i < dimensions; ++i) {
    const std::string field = fmt::format("dim[{}]", i);
    if (wide_dimensions) {
      walker.integer<std::uint64_t>(field);
    } else {
      walker.integer<std::uint32_t>(field);
    }
  }
}

void walk_name(Walker& walker) {
  const auto length = walker.integer<std::uint16_t>("name_length");
  walker.text(length, "name");
}

void walk_kind(Walker& walker) {
  const auto kind = load<std::uint8_t>(walker.peek(1, "kind"), 0);
  walker.skip(
      1, "kind",
      kind <= 2 ? fmt::format("{} ({})", kind, kind_name(static_cast<Kind>(kind))) : fmt::format("{} (invalid)", kind));
}

// What the file header says that decides how the rest is walked.
struct Frame {
  Layout layout = Layout::kV1;
  std::uint32_t version = 0;
  bool encrypted = false;
  bool flagged_dims = false;
  bool split = false;
  std::uint64_t count = 0;
  Segments segments;
};

// What the index says about where a tensor is, in bytes of the file.
struct Place {
  std::uint64_t number, header_offset, data_offset, data_length;
  bool wide_dimensions;
};

void walk_file_header(Walker& walker, Frame& frame) {
  walker.section("file header");
  walker.text(kMagic.size(), "magic");
  frame.version = walker.integer<std::uint32_t>("data version");
  const auto flags = walker.peek(32, "feature flags");
  frame.encrypted = frame.version == 3 || (frame.version >= 4 && (flags[0] & std::byte{1}) != std::byte{0});
  frame.flagged_dims = frame.version == 5 && (flags[0] & std::byte{2}) != std::byte{0};
  frame.split = frame.version == 5 && (flags[31] & std::byte{0x80}) != std::byte{0};
  std::vector<std::string_view> set;
  if (frame.encrypted) set.emplace_back("encrypted");
  if (frame.flagged_dims) set.emplace_back("entries have versions");
  if (frame.split) set.emplace_back("split pair (tzmark's extension)");
  const auto known = [&](std::size_t i) {
    if (i == 0) return std::byte(1 | (frame.flagged_dims ? 2 : 0));
    return std::byte(i == 31 && frame.split ? 0x80 : 0);
  };
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if ((flags[i] & ~known(i)) != std::byte{0}) {
      set.emplace_back("a flag that is reserved");
      break;
    }
  }
  const std::string names = set.empty() ? "none" : fmt::format("{}", fmt::join(set, ", "));
  walker.skip(32, "feature flags", frame.version < 4 ? "not interpreted" : names);
  walker.integer<std::uint64_t>("total data bytes");
  walker.skip(8, frame.split ? "pair number" : "unused");
  frame.count = walker.integer<std::uint64_t>("tensor count");
}

void walk_layout_section(Walker& walker, Frame& frame) {
  walker.section("layout section");
  walker.integer<std::uint64_t>("layout_length");
  walker.integer<std::uint8_t>("layout_version");
  walker.integer<std::uint8_t>("entry_count");
  walker.integer<std::uint8_t>("tag");
  frame.segments.metadata_begin = walker.integer<std::uint64_t>("metadata_start");
  frame.segments.metadata_end = walker.integer<std::uint64_t>("metadata_end");
  walker.integer<std::uint8_t>("tag");
  frame.segments.headers_begin = walker.integer<std::uint64_t>("header_start");
  frame.segments.headers_end = walker.integer<std::uint64_t>("header_end");
  walker.integer<std::uint8_t>("tag");
  frame.segments.data_begin = walker.integer<std::uint64_t>("data_start");
  walker.section("");
  walker.skip_to(frame.segments.metadata_begin, "room in front of the metadata segment");
}

std::vector<Place> walk_index(Walker& walker, const Frame& frame) {
  std::vector<Place> places;
  walker.section("index");
  const auto length = walker.integer<std::uint64_t>("index_length");
  const std::uint64_t end =
      length > walker.remaining() ? walker.position() + walker.remaining() : walker.position() + length;
  for (std::uint64_t i = 0; i < frame.count && walker.position() < end; ++i) {
    Place place{i, 0, 0, 0, false};
    walker.section(fmt::format("entry {}", i));
    if (has_entry_versions(frame.layout)) {
      place.wide_dimensions = walker.integer<std::uint32_t>("entry_version") == kEntryVersionWide;
    }
    walk_name(walker);
    walk_kind(walker);
    walk_type(walker, place.wide_dimensions);
    place.header_offset = walker.integer<std::uint64_t>("header_offset") + frame.segments.headers_begin;
    place.data_offset = walker.integer<std::uint64_t>("data_offset") + frame.segments.data_begin;
    place.data_length = walker.integer<std::uint64_t>("data_length");
    places.push_back(place);
  }
  walker.section("index");
  walker.skip_to(end, "room for more entries");
  return places;
}

void walk_crypt_block(Walker& walker) {
  walker.integer<std::uint64_t>("crypt_length");
  const auto chunks = walker.integer<std::uint16_t>("chunk_count");
  for (unsigned i = 0; i < chunks; ++i) {
    const auto length = walker.integer<std::uint64_t>("chunk_length");
    const std::uint64_t begin = walker.position();
    const auto type = walker.integer<std::uint16_t>("chunk_type");
    if (type == 1) {
      walker.integer<std::uint16_t>("method");
      walker.integer<std::uint64_t>("opslimit");
      walker.integer<std::uint64_t>("memlimit");
      walker.integer<std::int32_t>("alg");
      walker.skip(walker.integer<std::uint16_t>("salt_length"), "salt");
    } else if (type == 2) {
      walker.integer<std::uint64_t>("chunk_size");
      walker.skip(kNonceBytes, "nonce");
      const auto macs = walker.integer<std::uint64_t>("mac_count");
      for (std::uint64_t k = 0; k < macs; ++k) walker.skip(kMacBytes, fmt::format("mac[{}]", k));
    } else if (type == 3) {
      walker.skip(kNonceBytes, "nonce");
      walker.skip(kMacBytes, "mac");
    }
    const std::uint64_t taken = walker.position() - begin;
    if (taken < length) walker.skip(length - taken, "chunk payload");
  }
}

// Returns data_length.
std::uint64_t walk_header(Walker& walker, std::uint64_t number, bool encrypted, bool wide_dimensions) {
  walker.section(fmt::format("tensor {} header", number));
  const std::uint64_t begin = walker.position();
  const auto header_length = walker.integer<std::uint64_t>("header_length");
  walker.integer<std::uint16_t>("module_index");
  walk_kind(walker);
  walk_name(walker);
  walk_type(walker, wide_dimensions);
  walker.integer<std::uint16_t>("hashes_length");
  const auto hashes = walker.integer<std::uint8_t>("hash_count");
  for (unsigned i = 0; i < hashes; ++i) {
    const auto type = walker.integer<std::uint8_t>("hash type");
    const auto size = walker.integer<std::uint8_t>("hash size");
    walker.skip(size, type == 0 ? "CRC32" : type == 1 ? "SHA-256" : "unknown hash");
  }
  if (encrypted) walk_crypt_block(walker);
  const std::uint64_t taken = walker.position() - begin;
  if (header_length < taken || header_length - taken < sizeof(std::int64_t)) {
    throw Error(
        ErrorCode::kRecordFieldPastEnd,
        fmt::format("header_length is {}, but the fields have {} bytes and data_length follows", header_length, taken),
        begin);
  }
  walker.skip(header_length - taken - sizeof(std::int64_t), "bytes of no field");
  const auto data_length = walker.integer<std::int64_t>("data_length");
  if (data_length < 0) throw Error(ErrorCode::kRecordNegativeLength, "", walker.position() - sizeof(std::int64_t));
  return static_cast<std::uint64_t>(data_length);
}

void walk_data(Walker& walker, std::uint64_t number, bool encrypted, std::uint64_t length) {
  walker.section("");
  walker.skip(length, fmt::format("tensor {} {}", number, encrypted ? "ciphertext" : "data"));
}

bool at_terminator(const Walker& walker) {
  return walker.remaining() >= kTerminatorBytes && load<std::uint64_t>(walker.peek(kTerminatorBytes, ""), 0) == 0;
}

// Header after header, as they tell how long they are. The index says only how wide their dimensions are.
void walk_records(Walker& walker, const Frame& frame, std::vector<Place> places) {
  std::ranges::sort(places, {}, &Place::header_offset);
  for (std::uint64_t i = 0; walker.remaining() >= kTerminatorBytes && !at_terminator(walker); ++i) {
    const auto place = std::ranges::lower_bound(places, walker.position(), {}, &Place::header_offset);
    const bool known = place != places.end() && place->header_offset == walker.position();
    walk_data(walker, i, frame.encrypted, walk_header(walker, i, frame.encrypted, known && place->wide_dimensions));
  }
  walker.section("");
  walker.skip(kTerminatorBytes, "terminator");
}

// Headers and data where the index says they are, in the order of the file.
void walk_places(Walker& walker, const Frame& frame, std::vector<Place> places) {
  std::ranges::sort(places, {}, &Place::header_offset);
  for (const Place& place : places) {
    walker.section("");
    walker.skip_to(place.header_offset, "room");
    walk_header(walker, place.number, frame.encrypted, false);
  }
  walker.section("");
  if (frame.layout == Layout::kV5Segments) walker.skip_to(frame.segments.headers_end, "room for more headers");
  if (frame.split) return;
  std::ranges::stable_sort(places, {}, &Place::data_offset);
  for (const Place& place : places) {
    if (place.data_length == 0) continue;
    walker.section("");
    walker.skip_to(place.data_offset, "room");
    walk_data(walker, place.number, frame.encrypted, place.data_length);
  }
  walker.section("");
  // In a segment without data the terminator stands at its beginning.
  if (walker.position() < frame.segments.data_begin) walker.skip_to(frame.segments.data_begin, "room");
  if (at_terminator(walker)) walker.skip(kTerminatorBytes, "terminator");
}

// Which of the layouts of data version 5 a file is in; of a broken one, which it looks like.
Layout layout_of_version_5(File& file, const Frame& frame, const Walker& walker) {
  if (frame.flagged_dims) return Layout::kV5FlaggedDims;
  std::array<std::byte, kLayoutSectionEnd> head{};
  const auto bytes = std::span(head).first(static_cast<std::size_t>(std::min<std::uint64_t>(head.size(), file.size())));
  file.read_at(0, bytes);
  if (has_layout_section(bytes)) return Layout::kV5Segments;
  try {
    return read_index(file).layout;
  } catch (const Error&) {
    constexpr std::size_t kIndexAt = sizeof(std::uint64_t);
    if (walker.remaining() < kIndexAt + kEntryVersionBytes) return Layout::kV5HeadersFirst;
    const auto version = load<std::uint32_t>(bytes, kClassicIndexBegin);
    const bool tagged = version == kEntryVersionNarrow || version == kEntryVersionWide;
    return tagged ? Layout::kV5LongDims : Layout::kV5HeadersFirst;
  }
}

}  // namespace

void annotate(File& file, const std::function<void(const Annotation&)>& visit) {
  Walker walker(file, visit);
  try {
    Frame frame;
    walk_file_header(walker, frame);
    if (frame.version < 1 || frame.version > 5) {
      throw Error(ErrorCode::kHeaderVersion,
                  fmt::format("what follows is not known for data version {}", frame.version),
                  offsetof(FileHeaderWire, data_version));
    }
    frame.layout = frame.version < 5 ? static_cast<Layout>(frame.version) : layout_of_version_5(file, frame, walker);
    if (frame.layout == Layout::kV5Segments) walk_layout_section(walker, frame);
    std::vector<Place> places = walk_index(walker, frame);
    if (headers_first(frame.layout)) {
      walk_places(walker, frame, std::move(places));
    } else {
      walk_records(walker, frame, std::move(places));
    }
    walker.skip(walker.remaining(), "bytes after the last tensor, ignored");
  } catch (const Error&) {
    walker.section("");
    walker.skip(walker.remaining(), "not understood");
    throw;
  }
}

void print_annotated(File& file, bool unfolded, const std::function<void(std::string_view)>& print) {
  constexpr std::size_t kLineBytes = 16;
  constexpr std::uint64_t kFoldBytes = 4 * kLineBytes;
  std::string out;
  std::vector<std::byte> bytes(kLineBytes);
  const auto hex_line = [&](std::uint64_t offset, std::uint64_t length) {
    file.read_at(offset, std::span(bytes).first(length));
    std::string hex;
    for (std::size_t i = 0; i < length; ++i) {
      fmt::format_to(std::back_inserter(hex), "{}{:02x}", i == 0 ? "" : " ", std::to_integer<unsigned>(bytes[i]));
    }
    return hex;
  };
  const auto flush = [&](std::size_t limit) {
    if (out.size() <= limit) return;
    print(out);
    out.clear();
  };
  try {
    annotate(file, [&](const Annotation& a) {
      const bool fold = !unfolded && a.length > kFoldBytes;
      const std::uint64_t shown = fold ? 2 * kLineBytes : a.length;
      for (std::uint64_t at = 0; at < shown; at += kLineBytes) {
        const std::string hex = hex_line(a.begin + at, std::min<std::uint64_t>(kLineBytes, shown - at));
        if (at == 0) {
          fmt::format_to(std::back_inserter(out), "{:>12}  {:<48}  {}{}{}\n", a.begin, hex, a.field,
                         a.value.empty() ? "" : " = ", a.value);
        } else {
          fmt::format_to(std::back_inserter(out), "{:>12}  {}\n", a.begin + at, hex);
        }
        flush(1 << 20);
      }
      if (fold) fmt::format_to(std::back_inserter(out), "{:>12}  ({} more bytes)\n", "...", a.length - shown);
    });
  } catch (...) {
    flush(0);
    throw;
  }
  flush(0);
}

}  // namespace tzmark::cli
