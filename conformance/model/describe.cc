// A file from its first byte to its last: header, layout, reading, data, document. See model.h.
#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <stdexcept>

#include "model/canonical_document.h"
#include "model/hashes.h"
#include "model/model.h"
#include "model/opening.h"
#include "model/text.h"
#include "model/writer_rules.h"

namespace tzmark::conformance::model {
namespace {

// Steps 11 and 12: the hash of each tensor's plaintext, as far as there is data.
std::vector<std::optional<std::string>> read_data(Bytes file, const Secret& secret, const Reading& reading,
                                                  Notes& notes) {
  Opener opener(file, secret, reading, notes);
  opener.check_secret();
  std::vector<std::optional<std::string>> hashes(reading.tensors.size());
  if (notes.refused()) return hashes;
  for (std::size_t i = 0; i < reading.tensors.size(); ++i) {
    const Tensor& tensor = reading.tensors[i];
    if (!tensor.data_offset) continue;
    const std::vector<std::byte> data = opener.open(i);
    hashes[i] = sha256_of(data);
    if (tensor.header && tensor.header->whole) check_hashes(file, reading, i, data, notes);
  }
  return hashes;
}

// Whether the file was read to its end, which a reader that leaves checks out may not have done.
bool is_complete(const ParsedStructure& file_header, const Reading& reading) {
  const std::uint64_t count = file_header.find("tensor count")->number;
  return count > 0 && reading.tensors.size() == count && (reading.layout->headers_first || reading.terminator_at) &&
         std::all_of(reading.tensors.begin(), reading.tensors.end(), [](const Tensor& tensor) {
           return tensor.header_offset && tensor.data_offset && tensor.header && tensor.header->whole;
         });
}

void add_data_fields(Bytes file, const Reading& reading, Notes& notes) {
  for (std::size_t i = 0; i < reading.tensors.size(); ++i) {
    const Tensor& tensor = reading.tensors[i];
    if (!tensor.data_offset || tensor.data_length == 0) continue;
    const Value& dtype = *tensor.entry.find("dtype");
    const Bytes data = file.subspan(*tensor.data_offset, tensor.data_length);
    notes.field({*tensor.data_offset, tensor.data_length, fmt::format("tensor {}", i), "data",
                 reading.encrypted ? fmt::format("{} bytes, encrypted", tensor.data_length)
                                   : data_summary(text_of(file.subspan(dtype.offset, dtype.size)), data)});
  }
}

// Sorts the fields, and makes fields of the bytes that belong to none.
void fill_gaps(Bytes file, bool refused, std::vector<Field>& fields) {
  const auto before = [](const Field& a, const Field& b) { return a.offset < b.offset; };
  std::stable_sort(fields.begin(), fields.end(), before);
  std::vector<Field> gaps;
  std::uint64_t covered = 0;
  const auto gap = [&](std::uint64_t end) {
    if (covered >= end) return;
    const Bytes bytes = file.subspan(covered, end - covered);
    const bool zeros = std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
    gaps.push_back({covered, end - covered, "file",
                    refused              ? "no field"
                    : end == file.size() ? "rest"
                                         : "room",
                    zeros ? "zeros" : "ignored"});
  };
  for (const Field& field : fields) {
    gap(field.offset);
    covered = std::max(covered, field.offset + field.size);
  }
  gap(file.size());
  fields.insert(fields.end(), gaps.begin(), gaps.end());
  std::stable_sort(fields.begin(), fields.end(), before);
}

ParsedStructure walk_file_header(Bytes file, Notes& notes) {
  return walk(file, kFileHeader, 0, std::min<std::uint64_t>(65, file.size()), nullptr, std::string(kFileHeader.name),
              notes);
}

Reading read_tensors(Bytes file, const ParsedStructure& header, const std::set<std::string>& without) {
  const std::uint64_t version = header.find("data version")->number;
  return version == 5 ? read_version_5(file, header, without)
                      : read_as(file, header, layout_of_version(version), without);
}

}  // namespace

Description describe_structure(Bytes file, const std::set<std::string>& without) {
  Notes notes(without);
  Description description;
  if (const ParsedStructure header = walk_file_header(file, notes); header.whole) {
    Reading reading = read_tensors(file, header, without);
    description.layout = reading.layout->name;
    notes.append(std::move(reading.notes));
    add_data_fields(file, reading, notes);
  }
  description.fields = std::move(notes.fields());
  description.defects = std::move(notes.defects());
  std::ranges::stable_sort(description.fields, {}, &Field::offset);
  return description;
}

Description describe(Bytes file, const Secret& secret, const std::set<std::string>& without) {
  if (sodium_init() < 0) throw std::runtime_error("libsodium cannot be initialized");
  Notes notes(without);
  Description description;
  const ParsedStructure header = walk_file_header(file, notes);
  if (header.whole) {
    Reading reading = read_tensors(file, header, without);
    description.layout = reading.layout->name;
    notes.append(std::move(reading.notes));
    const auto hashes = read_data(file, secret, reading, notes);
    if (!notes.refused()) {
      description.document = canonical_document(file, header.find("data version")->number, reading, hashes);
      if (is_complete(header, reading)) check_writer_rules(file, header, reading, notes);
    }
    add_data_fields(file, reading, notes);
  } else if (!notes.refused()) {
    description.document = {{"tensors", Json::array()}};
  }
  const bool refused = notes.refused();
  description.fields = std::move(notes.fields());
  description.defects = std::move(notes.defects());
  fill_gaps(file, refused, description.fields);
  return description;
}

}  // namespace tzmark::conformance::model
