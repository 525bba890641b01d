// A file from its first byte to its last: header, layout, reading, data, document. See model.h.
#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>

#include "model/canonical_document.h"
#include "model/hashes.h"
#include "model/model.h"
#include "model/opening.h"
#include "model/text.h"
#include "model/writer_rules.h"

namespace tzmark::conformance::model {
namespace {

// Steps 11 and 12: the hash of each tensor's plaintext, as far as there is data and a key for it.
std::vector<std::optional<std::string>> read_data(const Secret& secret, Reading& reading) {
  Opener opener(reading.file, secret, reading, reading.notes);
  opener.check_secret();
  std::vector<std::optional<std::string>> hashes(reading.tensors.size());
  if (reading.notes.refused()) return hashes;
  for (std::size_t i = 0; i < reading.tensors.size(); ++i) {
    const Tensor& tensor = reading.tensors[i];
    if (!tensor.data_offset) continue;
    const std::optional<std::vector<std::byte>> data = opener.open(i);
    if (!data) continue;
    hashes[i] = sha256_of(*data);
    if (tensor.header_is_whole) check_hashes(reading, i, *data);
  }
  return hashes;
}

// Whether the file was read to its end, which a reader that leaves checks out may not have done.
bool is_complete(const Reading& reading) {
  const std::uint64_t count = reading.file_header.find("tensor count")->number;
  return count > 0 && reading.places.size() == count && (reading.layout->headers_first || reading.terminator_at) &&
         std::ranges::all_of(reading.places, [](const Place& p) { return p.data_offset && p.header_is_whole; });
}

// All fields in their order, and fields of the bytes that belong to none.
std::vector<Field> fields_without_gaps(const Reading& reading) {
  const bool refused = reading.notes.refused();
  std::vector<Field> fields;
  std::uint64_t covered = 0;
  const auto gap = [&](std::uint64_t end) {
    if (covered >= end) return;
    const Bytes bytes = reading.file.subspan(covered, end - covered);
    const bool zeros = std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
    fields.push_back({covered, end - covered, "file",
                      refused                      ? "no field"
                      : end == reading.file.size() ? "rest"
                                                   : "room",
                      zeros ? "zeros" : "ignored"});
  };
  reading.visit_fields([&](const Field& field) {
    gap(field.offset);
    fields.push_back(field);
    covered = std::max(covered, field.offset + field.size);
  });
  gap(reading.file.size());
  return fields;
}

// Nothing but the file header if that is not whole.
Reading read_file(Bytes file, const Mistakes& mistakes) {
  Notes notes(mistakes);
  const ParsedStructure header =
      walk(file, kFileHeader, 0, std::min<std::uint64_t>(65, file.size()), nullptr, {kFileHeader.name}, notes);
  const std::uint64_t version = header.whole ? header.find("data version")->number : 0;
  Reading reading = !header.whole  ? Reading(file, header, layout_of_version(version), mistakes)
                    : version == 5 ? read_version_5(file, header, mistakes)
                                   : read_as(file, header, layout_of_version(version), mistakes);
  notes.append(std::move(reading.notes));
  reading.notes.defects() = std::move(notes.defects());
  return reading;
}

Ignores ignores_rules(const std::set<std::string>& without) {
  return [without](const Defect& defect, std::string_view) { return without.contains(defect.rule); };
}

}  // namespace

Outline describe_structure(Bytes file, const std::set<std::string>& without) {
  const auto mistakes = std::make_shared<const Mistakes>(Mistakes{ignores_rules(without)});
  const auto reading = std::make_shared<Reading>(read_file(file, *mistakes));
  return {reading->notes.defects(), [mistakes, reading](const FieldVisitor& visit) { reading->visit_fields(visit); }};
}

Description describe(Bytes file, const Secret& secret, const std::set<std::string>& without) {
  return describe(file, secret, ignores_rules(without));
}

Description describe(Bytes file, const Secret& secret, const Ignores& ignores) {
  return describe(file, secret, Mistakes{ignores});
}

Description describe(Bytes file, const Secret& secret, const Mistakes& mistakes) {
  if (sodium_init() < 0) throw std::runtime_error("libsodium cannot be initialized");
  Description description;
  Reading reading = read_file(file, mistakes);
  if (reading.file_header.whole) {
    description.layout = reading.layout->name;
    parse_tensors(reading);
    const auto hashes = read_data(secret, reading);
    if (!reading.notes.refused()) {
      description.document = canonical_document(reading, hashes);
      if (is_complete(reading)) check_writer_rules(reading);
    }
  } else if (!reading.notes.refused()) {
    description.document = {{"tensors", Json::array()}};
  }
  description.fields = fields_without_gaps(reading);
  description.defects = std::move(reading.notes.defects());
  return description;
}

}  // namespace tzmark::conformance::model
