// Steps 7 to 10 of a reading: where headers and data lie, the headers themselves, and the terminator.
//
// What is wrong with one record ends the work on that record. Where the next one should begin is not known then.
#include <algorithm>
#include <numeric>
#include <utility>

#include "model/reading.h"
#include "model/text.h"

namespace tzmark::conformance::model {
namespace {

// The smallest header is longer, but a length is what must be there before anything else is looked at.
constexpr std::uint64_t kHeaderLengthBytes = 8;

// The bytes in which the offsets of an entry count.
struct Segment {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::string_view rule;
};

std::uint64_t bound(const Reading& reading, std::string_view name) {
  return reading.layout_section->find(name)->number;
}

Segment header_segment(const Reading& reading) {
  if (!reading.layout->segments) return {0, reading.file.size(), "TZR-IDX-008"};
  const std::uint64_t end = std::min<std::uint64_t>(bound(reading, "header_end"), reading.file.size());
  return {std::min(bound(reading, "header_start"), end), end, "TZR-SEG-004"};
}

Segment data_segment(const Reading& reading) {
  const std::uint64_t start = reading.layout->segments ? bound(reading, "data_start") : 0;
  return {std::min<std::uint64_t>(start, reading.file.size()), reading.file.size(), "TZR-IDX-010"};
}

// Tensors whose offset is known, in the order of these offsets.
std::vector<std::size_t> in_order(const std::vector<Place>& places, std::optional<std::uint64_t> Place::*offset) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i].*offset) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return places[a].*offset < places[b].*offset; });
  return order;
}

// Walks one header; nothing is left to go by if its length is wrong.
bool read_header(Reading& reading, std::size_t i, std::uint64_t limit, Notes& notes) {
  Place& place = reading.places[i];
  const std::uint64_t begin = *place.header_offset;
  Defect defect{.offset = begin, .structure = {kTensorHeader.name, i}, .field = "header_length"};
  const std::uint64_t length =
      notes.number(defect.structure, defect.field, reading.file.subspan(begin, kHeaderLengthBytes));
  defect.got = length;
  if (length == 0) {
    defect.rule = "TZR-REC-001";
    defect.clause = Clause::kValue;
    defect.wanted = Words{"above 0, which is the terminator's"};
    notes.defect(std::move(defect));
    return false;
  }
  if (length > limit - begin) {
    defect.rule = reading.layout->segments ? "TZR-SEG-004" : "TZR-REC-002";
    defect.clause = Clause::kLengthCut;
    defect.wanted = limit;
    notes.defect(std::move(defect));
    return false;
  }
  place.header_end = begin + length;
  place.header_is_whole = reading.read({&kTensorHeader, begin, begin + length, i}, notes).whole;
  return true;
}

// Whether the data begins where the header ends. Of the two numbers that differ, the one that lies is the length of the
// header if its fields do not fill it.
bool check_data_offset(Reading& reading, std::size_t i, bool header_is_right) {
  const Place& place = reading.places[i];
  const std::uint64_t end = *place.header_end;
  if (place.data_offset == end) return true;
  const Value offset = *reading.entry(i).find("data_offset");
  if (offset.number == end) return true;
  reading.notes.defect({.rule = header_is_right ? "TZR-IDX-009" : "TZR-REC-002",
                        .offset = header_is_right ? offset.offset : *place.header_offset,
                        .clause = Clause::kHeaderEnd,
                        .structure = {kIndexEntry.name, i},
                        .field = "data_offset",
                        .got = offset.number,
                        .wanted = end});
  return false;
}

// v1 to v4 and v5-long-dims: each record begins where the one before ends.
void read_records(Reading& reading) {
  std::optional<std::uint64_t> expected = reading.index_end;
  for (const std::size_t i : in_order(reading.places, &Place::header_offset)) {
    const Place& place = reading.places[i];
    if (expected && *place.header_offset != *expected) {
      const bool gap = *place.header_offset > *expected;
      reading.notes.defect({.rule = gap ? "TZR-IDX-012" : "TZR-IDX-011",
                            .offset = reading.entry(i).find("header_offset")->offset,
                            .clause = Clause::kRecordEnd,
                            .structure = {kIndexEntry.name, i},
                            .field = "header_offset",
                            .got = *place.header_offset,
                            .wanted = *expected});
    }
    expected.reset();
    Notes found = reading.notes.another();
    const bool read = read_header(reading, i, reading.file.size(), found);
    const bool meets_data = read && check_data_offset(reading, i, !found.refused());
    reading.notes.append(std::move(found));
    if (meets_data && place.data_offset) expected = *place.data_offset + place.data_length;
  }
  // Records that lead nowhere may have been the last.
  const bool all_known =
      std::ranges::all_of(reading.places, [](const Place& place) { return place.header_offset && place.data_offset; });
  if (!all_known || !expected) return;
  reading.terminator_at = expected;
  reading.read({&kTerminator, *expected, std::min<std::uint64_t>(*expected + 8, reading.file.size())}, reading.notes);
}

void overlap(Reading& reading, std::string_view rule, std::size_t i, std::string_view what, std::uint64_t offset) {
  reading.notes.defect({.rule = std::string(rule),
                        .offset = reading.entry(i).find(what)->offset,
                        .clause = Clause::kOverlap,
                        .structure = {kIndexEntry.name, i},
                        .field = what,
                        .got = offset});
}

// Headers one after another, then data, with gaps anywhere.
void read_apart(Reading& reading) {
  const std::uint64_t limit = header_segment(reading).end;
  std::uint64_t headers_end = 0;
  for (const std::size_t i : in_order(reading.places, &Place::header_offset)) {
    const std::uint64_t begin = *reading.places[i].header_offset;
    if (begin < headers_end) overlap(reading, "TZR-IDX-011", i, "header_offset", begin);
    if (!read_header(reading, i, limit, reading.notes)) continue;
    headers_end = std::max(headers_end, *reading.places[i].header_end);
  }
  std::uint64_t data_end = 0;
  for (const std::size_t i : in_order(reading.places, &Place::data_offset)) {
    const Place& place = reading.places[i];
    if (place.data_length == 0) continue;
    if (data_end == 0 && *place.data_offset < headers_end) {
      overlap(reading, "TZR-IDX-015", i, "data_offset", *place.data_offset);
    }
    if (*place.data_offset < data_end) overlap(reading, "TZR-IDX-011", i, "data_offset", *place.data_offset);
    data_end = std::max(data_end, *place.data_offset + place.data_length);
  }
}

}  // namespace

void check_offsets(Reading& reading) {
  const Segment headers = header_segment(reading);
  const Segment data = data_segment(reading);
  for (std::size_t i = 0; i < reading.places.size(); ++i) {
    Place& place = reading.places[i];
    const ParsedStructure entry = reading.entry(i);
    const StructureId id{kIndexEntry.name, i};
    const Value& header_offset = *entry.find("header_offset");
    const std::uint64_t header_room = headers.end - headers.begin;
    const bool begins_inside = header_offset.number < header_room;
    const bool has_length = begins_inside && header_room - header_offset.number >= kHeaderLengthBytes;
    if (!begins_inside || headers.begin + header_offset.number < reading.index_end) {
      reading.notes.defect({.rule = std::string(headers.rule),
                            .offset = header_offset.offset,
                            .clause = Clause::kNoHeaderPlace,
                            .structure = id,
                            .field = header_offset.name,
                            .got = header_offset.number});
    } else if (!has_length) {
      reading.notes.defect({.rule = reading.layout->segments ? std::string(headers.rule) : "TZR-REC-002",
                            .offset = headers.begin + header_offset.number,
                            .clause = Clause::kCut,
                            .structure = {kTensorHeader.name, i},
                            .field = "header_length",
                            .wanted = headers.end});
    } else {
      place.header_offset = headers.begin + header_offset.number;
    }
    const Value& data_offset = *entry.find("data_offset");
    const std::uint64_t data_room = data.end - data.begin;
    if (data_offset.number > data_room || place.data_length > data_room - data_offset.number) {
      reading.notes.defect({.rule = std::string(data.rule),
                            .offset = data_offset.offset,
                            .clause = Clause::kOutside,
                            .structure = id,
                            .field = data_offset.name,
                            .got = Numbers{data_offset.number, place.data_length}});
    } else {
      place.data_offset = data.begin + data_offset.number;
    }
  }
}

void read_headers(Reading& reading) {
  reading.layout->headers_first ? read_apart(reading) : read_records(reading);
  for (std::size_t i = 0; i < reading.places.size(); ++i) {
    const Place& place = reading.places[i];
    if (!place.data_offset || place.data_length == 0) continue;
    reading.parts.push_back({&kTensorData, *place.data_offset, *place.data_offset + place.data_length, i});
  }
}

}  // namespace tzmark::conformance::model
