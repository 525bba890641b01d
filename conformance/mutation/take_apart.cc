// A file as a draft; see consistent.h.
// The content comes from the model. Then the draft is put together again: where the result differs from the file, the
// file deviates.
#include <sodium.h>

#include <algorithm>
#include <stdexcept>
#include <tuple>

#include "model/opening.h"
#include "model/text.h"
#include "mutation/blob.h"
#include "mutation/put_together.h"
#include "mutation/sealing.h"

namespace tzmark::conformance::mutation {
namespace {

const model::Mistakes kNoMistakes{[](const model::Defect&, std::string_view) { return false; }};

constexpr std::uint64_t kFileHeaderBytes = 65;
constexpr std::uint64_t kDataLengthBytes = 8;

bool is_index_field(const Site& site) { return !site.name.starts_with("tensor header: "); }

bool is_sealing_field(const Site& site) {
  return site.name.ends_with(": hash value") || site.name.find(": mac ") != std::string::npos;
}

// How a deviation of this field follows changes: counts and offsets keep their difference, hashes and MACs keep their
// wrong bits, and copies keep their value.
bool is_relative(const Site& site) { return site.name != "tensor header: kind"; }

class Taking {
 public:
  Taking(model::Bytes file, const model::Secret& secret, const model::ParsedStructure& header, model::Reading& reading)
      : file_(file), secret_(&secret), header_(&header), reading_(&reading) {}

  std::optional<Draft> take() {
    draft_.layout = reading_->layout;
    draft_.encrypted = reading_->encrypted;
    draft_.magic = text(*header_, "magic");
    draft_.data_version = static_cast<std::uint32_t>(number(*header_, "data version"));
    draft_.flags = text(*header_, "feature flags");
    draft_.unused = text(*header_, "unused");
    take_index();
    take_places();
    open_data();
    // Copies in headers follow their entries, and hashes and MACs follow everything.
    if (!learn(false, [](const Site& site) { return is_index_field(site); })) return std::nullopt;
    if (!learn(false, [](const Site& site) { return !is_sealing_field(site); })) return std::nullopt;
    if (!learn(true, [](const Site&) { return true; })) return std::nullopt;
    return std::move(draft_);
  }

 private:
  std::string text(const model::Value& value) const { return text(value.offset, value.offset + value.size); }
  std::string text(const model::ParsedStructure& record, std::string_view name) const {
    const model::Value* const value = record.find(name);
    return value ? text(*value) : "";
  }
  std::string text(std::uint64_t begin, std::uint64_t end) const {
    return std::string(model::text_of(file_.subspan(begin, end - begin)));
  }
  static std::uint64_t number(const model::ParsedStructure& record, std::string_view name) {
    return record.find(name)->number;
  }
  Slice slice(std::uint64_t begin, std::uint64_t end) const {
    return {nullptr, file_.subspan(begin, std::max(begin, end) - begin)};
  }

  void take_index() {
    const model::ParsedStructure* const section = reading_->layout_section ? &*reading_->layout_section : nullptr;
    const std::uint64_t index_length_at = reading_->index_begin - 8;
    draft_.metadata_gap = slice(section ? section->end : kFileHeaderBytes, index_length_at);
    std::uint64_t at = reading_->index_begin;
    for (const model::Tensor& read : reading_->tensors) {
      DraftTensor tensor;
      if (const model::Value* version = read.entry.find("entry_version")) {
        tensor.entry_version = static_cast<std::uint32_t>(version->number);
      }
      tensor.name = text(read.entry, "name");
      tensor.kind = static_cast<std::uint8_t>(number(read.entry, "kind"));
      tensor.dtype = text(read.entry, "dtype");
      tensor.shape = read.shape;
      at = read.entry.end;
      draft_.tensors.push_back(std::move(tensor));
    }
    draft_.index_rest = slice(at, reading_->index_end);
    at_ = std::max(at, reading_->index_end);
    if (!section) return;
    const std::uint64_t header_start = number(*section, "header_start");
    if (header_start < at_ || header_start > first_place()) return;
    draft_.index_gap = slice(at_, header_start);
    at_ = header_start;
  }

  std::uint64_t first_place() const {
    std::uint64_t first = file_.size();
    for (const model::Tensor& tensor : reading_->tensors) {
      first = std::min({first, tensor.header_offset.value_or(first), tensor.data_offset.value_or(first)});
    }
    return first;
  }

  struct Found {
    std::uint64_t begin;
    std::uint64_t end;
    std::size_t tensor;
    bool is_data;
  };

  std::vector<Found> found_places() const {
    std::vector<Found> found;
    for (std::size_t i = 0; i < reading_->tensors.size(); ++i) {
      const model::Tensor& tensor = reading_->tensors[i];
      if (tensor.header) found.push_back({*tensor.header_offset, tensor.header->end, i, false});
      if (tensor.data_offset) found.push_back({*tensor.data_offset, *tensor.data_offset + tensor.data_length, i, true});
    }
    const auto order = [](const Found& f) { return std::tuple(f.begin, !f.is_data ? 1 : f.end == f.begin ? 0 : 2); };
    std::ranges::stable_sort(found, [&](const Found& a, const Found& b) { return order(a) < order(b); });
    return found;
  }

  // Of two places that share bytes, the second keeps those after the first.
  void take_places() {
    bool any_data = false;
    for (const Found& found : found_places()) {
      if (found.is_data && !any_data) take_data_gap(found.begin);
      any_data = any_data || found.is_data;
      DraftTensor& tensor = draft_.tensors[found.tensor];
      const std::uint64_t begin = std::max(found.begin, at_);
      const bool whole = begin == found.begin;
      (found.is_data ? tensor.data_place : tensor.header_place) = DraftPlace{found.begin, slice(at_, begin)};
      at_ = std::max(begin, found.end);
      if (found.is_data) {
        tensor.data = slice(begin, at_);
        tensor.sealed = !whole && found.begin < found.end;
      } else if (whole) {
        take_header(*reading_->tensors[found.tensor].header, tensor);
      } else {
        tensor.header.raw = slice(begin, at_);
      }
    }
    draft_.tail = slice(at_, file_.size());
  }

  void take_data_gap(std::uint64_t first_data) {
    if (!reading_->layout->segments) return;
    const std::uint64_t data_start = number(*reading_->layout_section, "data_start");
    if (data_start < at_ || data_start > first_data) return;
    draft_.data_gap = slice(at_, data_start);
    at_ = data_start;
  }

  void take_header(const model::ParsedStructure& record, DraftTensor& tensor) const {
    DraftHeader& header = tensor.header;
    // A crypt block without room for its length, or with less room than its length, cannot be read either.
    if (!record.whole || (reading_->encrypted && !record.children.at(1).whole)) {
      header.raw = slice(record.begin, record.end);
      return;
    }
    const model::ParsedStructure& entry = entry_of(record);
    header.module_index = static_cast<std::uint16_t>(number(record, "module_index"));
    const DraftCopies copies{text(record, "name"), text(record, "dtype"), text(record, "dim")};
    if (copies.name != tensor.name || copies.dtype != tensor.dtype || copies.dims != text(entry, "dim")) {
      header.copies = copies;
    }
    take_hashes(record, header);
    const model::Value& hashes_length = *record.find("hashes_length");
    std::uint64_t at = hashes_length.offset + hashes_length.size + hashes_length.number;
    if (reading_->encrypted) at = take_crypt(record, header);
    header.extra = text(at, record.end - kDataLengthBytes);
  }

  const model::ParsedStructure& entry_of(const model::ParsedStructure& header) const {
    return std::ranges::find_if(
               reading_->tensors,
               [&](const model::Tensor& tensor) { return tensor.header && &*tensor.header == &header; })
        ->entry;
  }

  void take_hashes(const model::ParsedStructure& record, DraftHeader& header) const {
    const model::Value& length = *record.find("hashes_length");
    const std::uint64_t begin = length.offset + length.size;
    const std::uint64_t end = begin + length.number;
    const model::ParsedStructure& list = record.children.at(0);
    if (!list.whole || list.end != end) {
      header.raw_hashes = text(begin, end);
      return;
    }
    for (const model::ParsedStructure& hash : list.children) {
      header.hashes.push_back({static_cast<std::uint8_t>(number(hash, "hash type")), text(hash, "hash value")});
    }
  }

  // Where the crypt block ends.
  std::uint64_t take_crypt(const model::ParsedStructure& record, DraftHeader& header) const {
    const model::ParsedStructure& block = record.children.at(1);
    const std::uint64_t begin = block.begin + kDataLengthBytes;
    const std::uint64_t end = begin + number(block, "crypt_length");
    const model::ParsedStructure& chunks = block.children.at(0);
    const bool right = chunks.whole && chunks.end == end &&
                       std::ranges::all_of(chunks.children, [](const model::ParsedStructure& chunk) {
                         return chunk.children.at(0).find("chunk_type") != nullptr;
                       });
    if (!right) {
      header.raw_crypt = text(begin, end);
      return end;
    }
    for (const model::ParsedStructure& chunk : chunks.children) header.chunks.push_back(take_chunk(chunk));
    return end;
  }

  DraftChunk take_chunk(const model::ParsedStructure& record) const {
    DraftChunk chunk;
    const model::ParsedStructure& body = record.children.at(0);
    const model::Value& type = *body.find("chunk_type");
    chunk.type = static_cast<std::uint16_t>(type.number);
    const model::ParsedStructure* const payload = body.children.empty() ? nullptr : &body.children[0];
    if (!payload || !payload->whole || payload->end != record.end) {
      chunk.raw = text(type.offset + type.size, record.end);
      return chunk;
    }
    if (chunk.type == model::kChunkKeyDerivation) {
      chunk.method = static_cast<std::uint16_t>(number(*payload, "method"));
      chunk.opslimit = number(*payload, "opslimit");
      chunk.memlimit = number(*payload, "memlimit");
      chunk.alg = static_cast<std::uint32_t>(number(*payload, "alg"));
      chunk.salt = text(*payload, "salt");
      return chunk;
    }
    chunk.nonce = text(*payload, "nonce");
    chunk.macs = text(*payload, "mac");
    if (const model::Value* size = payload->find("chunk_size")) chunk.chunk_size = size->number;
    for (const model::ParsedStructure& mac : payload->children) chunk.macs += text(mac, "mac");
    return chunk;
  }

  // Decrypts what can be decrypted, and counts the MACs that are too many or too few.
  void open_data() {
    model::Notes notes(kNoMistakes);
    model::Opener opener(file_, *secret_, *reading_, notes);
    for (std::size_t i = 0; i < draft_.tensors.size(); ++i) {
      DraftTensor& tensor = draft_.tensors[i];
      if (!draft_.encrypted) continue;
      const DraftChunk* const cipher = cipher_of(tensor.header.chunks);
      for (DraftChunk& chunk : tensor.header.chunks) {
        if (chunk.raw || chunk.type != model::kChunkParallel) continue;
        const std::uint64_t needed = messages_of(chunk, chunk.chunk_size, tensor.data.bytes.size());
        chunk.extra_macs = static_cast<std::int64_t>(chunk.macs.size() / crypto_secretbox_MACBYTES - needed);
      }
      if (tensor.data.bytes.empty() || tensor.sealed || !tensor.header_place) continue;
      // Without a cipher, or without messages, data is stored unchanged.
      const bool plain = cipher ? messages_of(*cipher, cipher->chunk_size, tensor.data.bytes.size()) == 0
                                : !tensor.header.raw_crypt && !has_cipher(tensor.header.chunks);
      if (plain) continue;
      if (cipher) tensor.key = opener.key_for(i, *reading_->tensors[i].header);
      tensor.sealed = !tensor.key;
      if (tensor.key) tensor.data = slice_of(opener.open(i).value());
    }
  }

  // Records deviations of the chosen fields that differ from the file. Returns whether all other bytes match the file.
  template <typename Choice>
  bool learn(bool sealing, const Choice& chosen) {
    std::vector<Site> sites;
    const std::vector<std::byte> made = put_together(draft_, sealing, &sites);
    if (made.size() != file_.size()) return false;
    std::uint64_t at = 0;
    const auto same = [&](std::uint64_t end) {
      return std::equal(made.begin() + at, made.begin() + end, file_.begin() + at);
    };
    for (const Site& site : sites) {
      if (sealing && !same(site.offset)) return false;
      at = site.offset;
      const bool encrypted_later = !sealing && site.name == "data";
      if (encrypted_later || !chosen(site) || same(site.offset + site.size)) {
        at += site.size;
        continue;
      }
      at += site.size;
      if (site.size == 0 || site.name == "data" || site.name == "tail" || site.name == "index rest") return false;
      Deviation deviation;
      deviation.bytes = text(site.offset, at);
      const std::string right(model::text_of(model::Bytes(made).subspan(site.offset, site.size)));
      deviation.difference = difference_of(deviation.bytes, right);
      deviation.relative = is_relative(site);
      Deviations& deviations = site.tensor ? draft_.tensors[*site.tensor].deviations : draft_.deviations;
      if (!deviations.emplace(site.name, std::move(deviation)).second) return false;
    }
    return !sealing || same(file_.size());
  }

  model::Bytes file_;
  const model::Secret* secret_;
  const model::ParsedStructure* header_;
  model::Reading* reading_;
  Draft draft_;
  std::uint64_t at_ = 0;  // end of the bytes taken so far
};

std::ptrdiff_t headers_read(const model::Reading& reading) {
  return std::ranges::count_if(reading.places, &model::Place::header_is_whole);
}

// If a file of data version 5 fits none of its layouts, picks the one in which more of it can be read.
model::Reading read(model::Bytes file, const model::ParsedStructure& header) {
  const std::uint64_t version = header.find("data version")->number;
  if (version != 5) return model::read_as(file, header, model::layout_of_version(version), kNoMistakes);
  model::Reading reading = model::read_version_5(file, header, kNoMistakes);
  const bool by_content = !reading.layout->segments && reading.layout->flag == 0;
  if (!by_content || !reading.notes.refused()) return reading;
  for (const model::Layout& other : model::layouts()) {
    if (other.data_version < 4 || other.segments || other.flag != 0) continue;
    model::Reading again = model::read_as(file, header, other, kNoMistakes);
    if (headers_read(again) > headers_read(reading)) reading = std::move(again);
  }
  return reading;
}

}  // namespace

std::optional<Draft> take_apart(model::Bytes file, const model::Secret& secret) {
  if (sodium_init() < 0) throw std::runtime_error("libsodium cannot be initialized");
  model::Notes notes(kNoMistakes);
  const model::ParsedStructure header = model::walk(
      file, model::kFileHeader, 0, std::min<std::uint64_t>(kFileHeaderBytes, file.size()), nullptr, {}, notes);
  if (!header.whole) return std::nullopt;
  model::Reading reading = read(file, header);
  // The index has not been found.
  if (reading.index_begin == 0) return std::nullopt;
  model::parse_tensors(reading);
  return Taking(file, secret, header, reading).take();
}

}  // namespace tzmark::conformance::mutation
