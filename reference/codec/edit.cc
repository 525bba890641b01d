// Renaming and dropping tensors of a v5-segments file, and changing their kind: rewrites index and headers, keeps data.
#include "tzmark/edit.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "bytes/cursor.h"
#include "bytes/pieces.h"
#include "codec/block_writer.h"
#include "codec/in_place_edit.h"
#include "codec/tensor_digest.h"
#include "format/name_tree.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

constexpr std::size_t kHashedPieceBytes = 2 << 20;

// The new fields of one tensor.
struct NewFields {
  std::string name;
  Kind kind;
  bool renamed = false, retyped = false, dropped = false;  // what the edits ask for
  bool changed = false;
};

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorCode::kUsage, why); }

// Returns the new fields of all tensors, in index order.
std::vector<NewFields> plan_fields(const Reader& reader, const std::vector<TensorEdit>& edits) {
  const TensorTable& tensors = reader.tensors();
  std::vector<NewFields> planned;
  for (std::size_t i = 0; i < tensors.size(); ++i) planned.push_back({std::string(tensors[i].name), tensors[i].kind});
  for (const TensorEdit& edit : edits) {
    const auto found = reader.find(edit.tensor);
    if (!found) {
      throw Error(ErrorCode::kNoSuchTensor, fmt::format("there is no tensor '{}'", display_path(edit.tensor)));
    }
    NewFields& fields = planned[*found];
    const bool again = (edit.new_path && fields.renamed) || (edit.new_kind && fields.retyped);
    if (edit.new_path) fields.name = serialize_name(*edit.new_path);
    if (edit.new_kind) fields.kind = *edit.new_kind;
    fields.renamed = fields.renamed || edit.new_path;
    fields.retyped = fields.retyped || edit.new_kind;
    fields.dropped = fields.dropped || edit.drop;
    if (again || (fields.dropped && (fields.renamed || fields.retyped))) {
      refuse(fmt::format("the edits of '{}' contradict each other", display_path(edit.tensor)));
    }
  }
  NameTree names;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < planned.size(); ++i) {
    NewFields& fields = planned[i];
    if (fields.dropped) continue;
    ++kept;
    fields.changed = fields.name != tensors[i].name || fields.kind != tensors[i].kind;
    if (fields.name.size() > 65535)
      refuse(fmt::format("a name of {} bytes exceeds the maximum of 65535", fields.name.size()));
    if (fields.name.starts_with(kStructuredNameMark) && fields.kind != Kind::kStateDict) {
      refuse(fmt::format("'{}' has a path of several elements, which requires kind state_dict",
                         display_path(parse_name(fields.name))));
    }
    names.add_new(fields.name);
  }
  if (kept == 0) refuse("cannot drop all tensors: a file contains at least one");
  return planned;
}

// Returns the header with the new name and kind, but the old hashes.
std::vector<std::byte> rewritten_header(std::span<const std::byte> header, const TensorHeader& decoded,
                                        const NewFields& fields) {
  constexpr std::size_t kModuleAt = 8;
  constexpr std::size_t kNameLengthAt = 8 + 2 + 1;
  const std::size_t rest_at = kNameLengthAt + sizeof(std::uint16_t) + decoded.name.size();
  std::vector<std::byte> bytes;
  ByteWriter writer(bytes);
  writer.integer(std::uint64_t{header.size() - decoded.name.size() + fields.name.size()});
  writer.bytes(header.subspan(kModuleAt, sizeof(std::uint16_t)));
  writer.integer(static_cast<std::uint8_t>(fields.kind));
  writer.text<std::uint16_t>(fields.name);
  writer.bytes(header.subspan(rest_at));
  return bytes;
}

// Reads the tensor's data, verifies its old hashes, and stores the new ones in its new header.
void rehash(const Reader& reader, std::size_t tensor, std::span<std::byte> header, const Progress& progress) {
  const auto stream = reader.open(tensor);
  const ExpectedHashes& expected = *stream->expected();
  TensorHeader decoded;
  decode_tensor_header(header, 0, {reader.header().encrypted, false}, decoded);
  std::vector<std::byte> hashed;
  append_hashed_header(reader.layout(), header, decoded, hashed);
  TensorDigest old_digest, new_digest;
  old_digest.begin(expected.hashed_header(), expected.wants_crc32(), expected.wants_sha256());
  new_digest.begin(hashed, expected.wants_crc32(), expected.wants_sha256());
  const std::uint64_t data_length = reader.tensors()[tensor].data_length;
  for_each_piece(data_length, kHashedPieceBytes, [&](std::uint64_t offset, std::span<std::byte> piece) {
    stream->read(offset, piece);
    const std::uint32_t crc = expected.wants_crc32() ? crc32(0, piece) : 0;
    old_digest.add(piece, crc);
    new_digest.add(piece, crc);
    if (progress) progress(piece.size());
  });
  // Corrupt data must not get a matching hash.
  expected.check(old_digest.crc32(), old_digest.finish_sha256());
  const Sha256Digest sha = new_digest.finish_sha256();
  for (const TensorHeader::Hash& hash : decoded.hashes) {
    if (hash.is_sha256) {
      std::ranges::copy(sha, header.begin() + static_cast<std::ptrdiff_t>(hash.value_at));
    } else {
      store(header, hash.value_at, new_digest.crc32());
    }
  }
}

// The new index and headers, in temporary files since the old ones are still being read.
struct Rewritten {
  std::unique_ptr<File> entries = temporary_file();
  std::unique_ptr<File> headers = temporary_file();
  std::uint64_t tensor_count = 0;
  std::uint64_t total_data_bytes = 0;
};

Rewritten rewrite(const Reader& reader, const std::vector<NewFields>& planned, const Progress& progress) {
  Rewritten result;
  const TensorTable& tensors = reader.tensors();
  std::vector<std::uint64_t> header_offsets(tensors.size());
  BlockWriter headers(*result.headers, 0);
  reader.check_headers([&](std::size_t i, const TensorHeader& decoded, std::span<const std::byte> header) {
    if (planned[i].dropped) return;
    header_offsets[i] = headers.position();
    if (planned[i].changed) {
      std::vector<std::byte> changed = rewritten_header(header, decoded, planned[i]);
      rehash(reader, i, changed, progress);
      headers.bytes(changed);
    } else {
      headers.bytes(header);
    }
    headers.flush_if_full();
  });
  headers.flush();
  BlockWriter entries(*result.entries, 0);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (planned[i].dropped) continue;
    TensorFields fields = tensors[i].fields();
    fields.name = planned[i].name;
    fields.kind = planned[i].kind;
    encode_index_entry(entries.writer(), reader.layout(), fields, header_offsets[i],
                       tensors[i].data_offset - reader.segments().data_begin);
    entries.flush_if_full();
    ++result.tensor_count;
    result.total_data_bytes += tensors[i].data_length;
  }
  entries.flush();
  return result;
}

// Overwrites old content with new, and with zeros if the old was longer, so that a dropped name disappears.
void replace(File& file, std::uint64_t begin, std::uint64_t old_end, File& content) {
  copy_bytes(content, 0, file, begin, content.size());
  BlockWriter rest(file, begin + content.size());
  rest.zeros_to(std::max(old_end, begin + content.size()));
}

}  // namespace

Growth edit_tensors(const std::string& file_name, const std::vector<TensorEdit>& edits, EditOptions options) {
  InPlaceEdit edit(file_name, options.io_path, options.durability);
  ReadOptions read;
  read.key = std::move(options.key);
  read.key_derivation_limits = options.key_derivation_limits;
  const Reader reader(edit.open_for_reading(), std::move(read));
  const Rewritten rewritten = rewrite(reader, plan_fields(reader, edits), options.progress);

  // The rewritten index stays valid when segments grow, since its offsets are relative to them.
  edit.make_room(InPlaceEdit::Segment::kMetadata, edit.index().begin + rewritten.entries->size());
  edit.make_room(InPlaceEdit::Segment::kHeaders, edit.index().segments.headers_begin + rewritten.headers->size());
  const std::uint64_t entries_begin = edit.index().begin;
  const std::uint64_t headers_begin = edit.index().segments.headers_begin;
  edit.begin({{entries_begin, std::max(edit.index().length, rewritten.entries->size())},
              {headers_begin, std::max(edit.headers_end() - headers_begin, rewritten.headers->size())}},
             edit.file().size());
  replace(edit.file(), entries_begin, edit.entries_end(), *rewritten.entries);
  replace(edit.file(), headers_begin, edit.headers_end(), *rewritten.headers);
  edit.write_head(rewritten.tensor_count, rewritten.total_data_bytes, rewritten.entries->size());
  edit.commit();
  return edit.growth();
}

}  // namespace tzmark
