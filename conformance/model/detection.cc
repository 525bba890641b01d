// Which of its layouts a file of data version 5 is in, by FORMAT.md 14.1.
#include "model/reading.h"
#include "model/text.h"

namespace tzmark::conformance::model {
namespace {

constexpr std::uint64_t kBehindFileHeader = 65;

// The length of the layout section, and its version, count and first tag.
bool has_layout_section(Bytes file, const Notes& notes) {
  const Bytes section = file.subspan(kBehindFileHeader);
  if (section.size() < 11) return false;
  const auto is = [&](std::string_view field, std::size_t at, std::size_t size, std::uint64_t wanted) {
    return notes.number({kLayoutSection.name}, field, section.subspan(at, size)) == wanted;
  };
  return is("layout_length", 0, 8, 45) && is("layout_version", 8, 1, 1) && is("entry_count", 9, 1, 3) &&
         is("metadata tag", 10, 1, 1);
}

// The layout of data version 5 that a feature flag says; null if none does.
const Layout* flagged_layout(Bytes file, const ParsedStructure& file_header) {
  const auto flags = std::to_integer<unsigned>(file[file_header.find("feature flags")->offset]);
  for (const Layout& layout : layouts()) {
    if (layout.data_version == 5 && (layout.flag & flags) != 0) return &layout;
  }
  return nullptr;
}

// Whether the index begins with the number 1 or 5, as one of v5-long-dims does.
bool begins_with_entry_version(Bytes file) {
  const Bytes index = file.subspan(std::min<std::size_t>(kBehindFileHeader + 8, file.size()));
  if (index.size() < 4) return false;
  const std::uint64_t number = little_endian(index.first(4));
  return number == 1 || number == 5;
}

}  // namespace

Reading read_version_5(Bytes file, const ParsedStructure& file_header, const Mistakes& mistakes) {
  const auto read = [&](std::string_view layout) { return read_as(file, file_header, layout_named(layout), mistakes); };
  if (const Layout* const flagged = flagged_layout(file, file_header)) return read(flagged->name);
  if (has_layout_section(file, Notes(mistakes, "v5-segments"))) return read("v5-segments");
  Reading headers_first = read("v5-headers-first");
  Reading long_dims = read("v5-long-dims");
  const bool fits_headers_first = !headers_first.notes.refused();
  const bool fits_long_dims = !long_dims.notes.refused();
  if (fits_headers_first && fits_long_dims) {
    headers_first.notes.defect({.rule = "TZR-HDR-008",
                                .offset = kBehindFileHeader,
                                .wanted = Words{"the file can be read as v5-headers-first and as v5-long-dims"}});
    return headers_first;
  }
  if (fits_headers_first) return headers_first;
  if (fits_long_dims) return long_dims;
  // What only releases from 2.12 on read.
  if (Reading classic = read("v4"); !classic.notes.refused()) return classic;
  // Neither: say what is wrong with the reading that was probably meant.
  const bool meant_long_dims = begins_with_entry_version(file);
  Reading& meant = meant_long_dims ? long_dims : headers_first;
  const bool both = headers_first.index_fits && long_dims.index_fits;
  if (!both && (meant_long_dims || headers_first.first_entry_fits)) return std::move(meant);
  meant.notes.defects().clear();
  meant.notes.defect({.rule = "TZR-HDR-007",
                      .offset = kBehindFileHeader,
                      .wanted = Words{"the index is in none of the layouts of data version 5"}});
  return std::move(meant);
}

}  // namespace tzmark::conformance::model
