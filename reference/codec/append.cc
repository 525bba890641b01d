// Appending tensors to a v5-segments file.

#include <algorithm>
#include <optional>

#include "codec/header_reading.h"
#include "codec/in_place_edit.h"
#include "codec/write_plan.h"
#include "codec/write_records.h"
#include "format/name_tree.h"
#include "tzmark/edit.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

void check_names(const TensorTable& present, const TensorTable& added) {
  NameTree names;
  for (std::size_t i = 0; i < present.size(); ++i) names.add(present[i].name, 0);
  for (std::size_t i = 0; i < added.size(); ++i) names.add_new(added[i].name);
}

// Returns the tensor whose data is the fastest to read.
std::optional<std::size_t> smallest_with_data(const TensorTable& tensors) {
  std::optional<std::size_t> smallest;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t length = tensors[i].data_length;
    if (length > 0 && (!smallest || length < tensors[*smallest].data_length)) smallest = i;
  }
  return smallest;
}

// Describes the existing content for the plan of the new tensors.
Extension extension_of(InPlaceEdit& edit) {
  const Index& index = edit.index();
  Extension extension;
  extension.segments = index.segments;
  extension.headers_end = edit.headers_end();
  std::uint64_t data_end = index.segments.data_begin;
  for (std::size_t i = 0; i < index.tensors.size(); ++i) {
    const TensorInfo tensor = index.tensors[i];
    if (tensor.data_length > 0) data_end = std::max(data_end, tensor.data_offset + tensor.data_length);
  }
  // After the terminator and anything else, so that nothing is overwritten.
  extension.data_end = std::max(data_end + kTerminatorBytes, edit.file().size());
  if (const auto sample = index.header.encrypted ? smallest_with_data(index.tensors) : std::nullopt) {
    TensorHeader header;
    const std::vector<std::byte> bytes = read_header(edit.file(), index, *sample);
    decode_header(index, *sample, bytes, header);
    extension.key_derivation = header.crypt.key_derivation;
  }
  return extension;
}

// Throws TZR-CRY-016 unless the key decrypts the existing tensors: no single key could open a file with several.
void check_key(const InPlaceEdit& edit, const WritePlan& plan) {
  ReadOptions read;
  read.key = Key(plan.key().bytes());
  const Reader reader(edit.open_for_reading(), std::move(read));
  const auto sample = smallest_with_data(reader.tensors());
  if (!sample) return;
  std::array<std::byte, 1> byte;
  reader.open(*sample)->read(0, std::span<std::byte>(byte));
}

}  // namespace

Growth append_tensors(const std::string& file_name, const TensorTable& tensors, const TensorSource& source,
                      WriteOptions options) {
  InPlaceEdit edit(file_name, options.io_path, options.durability);
  if (edit.index().header.encrypted != options.encrypt.has_value()) {
    throw Error(ErrorCode::kUsage, options.encrypt ? "an encryption key was given for a file that is not encrypted"
                                                   : "the file is encrypted, and no encryption key was given");
  }
  check_names(edit.index().tensors, tensors);
  options.layout = Layout::kV5Segments;
  options.detached_data = false;

  Extension extension = extension_of(edit);
  WritePlan plan(tensors, options, &extension);
  if (plan.encrypted()) check_key(edit, plan);
  edit.make_room(InPlaceEdit::Segment::kMetadata, edit.entries_end() + plan.entry_bytes());
  edit.make_room(InPlaceEdit::Segment::kHeaders, edit.headers_end() + (plan.headers_end() - extension.headers_end));
  if (edit.growth().times > 0) {
    extension = extension_of(edit);
    plan.place();
  }

  const Index& index = edit.index();
  const std::uint64_t entries_at = edit.entries_end();
  edit.begin({{entries_at, plan.entry_bytes()}, {extension.headers_end, plan.headers_end() - extension.headers_end}},
             plan.file_bytes());
  write_records(edit.file(), edit.file(), plan, source, options);
  plan.write_terminator(edit.file());
  plan.write_entries(edit.file(), entries_at);
  std::uint64_t data_bytes = plan.data_bytes();
  for (std::size_t i = 0; i < index.tensors.size(); ++i) data_bytes += index.tensors[i].data_length;
  edit.write_head(index.tensors.size() + tensors.size(), data_bytes, index.length + plan.entry_bytes());
  edit.commit();
  return edit.growth();
}

}  // namespace tzmark
