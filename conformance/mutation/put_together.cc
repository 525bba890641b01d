// A draft as a file; see consistent.h.
//
// Headers come first, because the index needs their sizes, and then the index twice: once for its own size.
#include "mutation/put_together.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "model/text.h"
#include "mutation/blob.h"
#include "mutation/sealing.h"

namespace tzmark::conformance::mutation {
namespace {

std::string text_of(const Slice& slice) { return std::string(model::text_of(slice.bytes)); }

void append(std::vector<std::byte>& out, model::Bytes bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); }

// The fields of an index entry that its header repeats.
struct EntryFields {
  std::string name;
  std::string kind;
  std::string dtype;
  std::string dims;
  std::size_t dim_bytes = 4;
  std::string data_length;
};

struct Offsets {
  std::uint64_t header = 0;
  std::uint64_t data = 0;
};

Blob index_entry(const Draft& draft, const DraftTensor& tensor, const Offsets& offsets, EntryFields& fields) {
  Blob blob(tensor.deviations, "index entry: ");
  const bool versions = draft.layout->long_dims;
  fields.dim_bytes = versions && blob.add("entry_version", tensor.entry_version, 4) == 5 ? 8 : 4;
  blob.add("name_length", tensor.name.size(), 2);
  fields.name = blob.add("name", tensor.name);
  fields.kind = blob.add("kind", number_bytes(tensor.kind, 1));
  blob.add("dtype_length", tensor.dtype.size(), 1);
  fields.dtype = blob.add("dtype", tensor.dtype);
  blob.add("ndim", tensor.shape.size(), 1);
  std::string dims;
  for (const std::uint64_t dim : tensor.shape) dims += number_bytes(dim, fields.dim_bytes);
  fields.dims = blob.add("dim", dims);
  blob.add("header_offset", offsets.header, 8);
  blob.add("data_offset", offsets.data, 8);
  fields.data_length = blob.add("data_length", number_bytes(tensor.data.bytes.size(), 8));
  return blob;
}

std::string hash_name(std::size_t i, std::string_view field) { return fmt::format("hash {}: {}", i, field); }

// The values are filled in once the header is known.
Blob hash_list(const DraftTensor& tensor) {
  Blob blob(tensor.deviations, "tensor header: ");
  if (tensor.header.raw_hashes) {
    blob.add("hash list", *tensor.header.raw_hashes);
    return blob;
  }
  const auto& hashes = tensor.header.hashes;
  blob.add("hash_count", hashes.size(), 1);
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    blob.add(hash_name(i, "hash type"), hashes[i].type, 1);
    blob.add(hash_name(i, "hash size"), hashes[i].stored.size(), 1);
    blob.add(hash_name(i, "hash value"), hashes[i].stored);
  }
  return blob;
}

// The header and data of one tensor, as in the file.
class DraftRecord {
 public:
  DraftRecord(const Draft& draft, const DraftTensor& tensor, const EntryFields& entry, bool sealing)
      : draft_(&draft), tensor_(&tensor), entry_(&entry), sealing_(sealing), header_(tensor.deviations, kPrefix) {
    if (tensor.header.raw) {
      header_.add("raw", text_of(*tensor.header.raw));
      return;
    }
    make_header();
  }

  const Blob& header() const { return header_; }
  model::Bytes data() const { return ciphertext_ ? model::Bytes(*ciphertext_) : tensor_->data.bytes; }

 private:
  static constexpr std::string_view kPrefix = "tensor header: ";

  void make_header() {
    const DraftHeader& header = tensor_->header;
    const std::string name = header.copies ? header.copies->name : entry_->name;
    const std::string dtype = header.copies ? header.copies->dtype : entry_->dtype;
    const std::string dims = header.copies ? header.copies->dims : entry_->dims;
    Blob body(tensor_->deviations, kPrefix);
    body.add("module_index", header.module_index, 2);
    body.add("kind", entry_->kind);
    body.add("name_length", name.size(), 2);
    body.add("name", name);
    body.add("dtype_length", dtype.size(), 1);
    body.add("dtype", dtype);
    body.add("ndim", dims.size() / entry_->dim_bytes, 1);
    body.add("dim", dims);
    const Blob hashes = hash_list(*tensor_);
    body.add("hashes_length", hashes.bytes().size(), 2);
    body.add(hashes);
    const std::size_t hashes_end = body.bytes().size();
    if (draft_->encrypted) {
      const Blob crypt = crypt_block();
      body.add("crypt_length", crypt.bytes().size(), 8);
      body.add(crypt);
    }
    if (!header.extra.empty()) body.add("extra", header.extra);
    const std::string data_length = body.add("data_length", entry_->data_length);
    header_.add("header_length", kLengthBytes + body.bytes().size(), kLengthBytes);
    header_.add(body);
    fill_hashes(kLengthBytes + hashes_end, data_length);
  }

  Blob crypt_block() {
    Blob blob(tensor_->deviations, kPrefix);
    if (tensor_->header.raw_crypt) {
      blob.add("crypt block", *tensor_->header.raw_crypt);
      return blob;
    }
    const auto& chunks = tensor_->header.chunks;
    blob.add("chunk_count", chunks.size(), 2);
    const DraftChunk* const cipher = tensor_->key ? cipher_of(chunks) : nullptr;
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      const std::string prefix = fmt::format("{}crypt chunk {}: ", kPrefix, i);
      Blob body(tensor_->deviations, prefix);
      body.add("chunk_type", chunks[i].type, 2);
      add_payload(chunks[i], &chunks[i] == cipher, body);
      Blob chunk(tensor_->deviations, prefix);
      chunk.add("chunk_length", body.bytes().size(), 8);
      chunk.add(body);
      blob.add(chunk);
    }
    return blob;
  }

  void add_payload(const DraftChunk& chunk, bool is_cipher, Blob& blob) {
    if (chunk.raw) {
      blob.add("payload", *chunk.raw);
    } else if (chunk.type == model::kChunkKeyDerivation) {
      blob.add("method", chunk.method, 2);
      blob.add("opslimit", chunk.opslimit, 8);
      blob.add("memlimit", chunk.memlimit, 8);
      blob.add("alg", chunk.alg, 4);
      blob.add("salt_length", chunk.salt.size(), 2);
      blob.add("salt", chunk.salt);
    } else {
      add_cipher(chunk, is_cipher, blob);
    }
  }

  void add_cipher(const DraftChunk& chunk, bool is_cipher, Blob& blob) {
    const bool parallel = chunk.type == model::kChunkParallel;
    const std::uint64_t chunk_size = parallel ? blob.add("chunk_size", chunk.chunk_size, 8) : 0;
    const std::string nonce = blob.add("nonce", chunk.nonce);
    const std::uint64_t needed = messages_of(chunk, chunk_size, tensor_->data.bytes.size());
    const auto count =
        static_cast<std::uint64_t>(std::max<std::int64_t>(0, static_cast<std::int64_t>(needed) + chunk.extra_macs));
    if (parallel) blob.add("mac_count", count, 8);
    Sealed sealed;
    if (is_cipher && sealing_) sealed = seal(chunk, chunk_size, nonce, tensor_->data.bytes, *tensor_->key);
    for (std::uint64_t i = 0; i < count; ++i) {
      std::string mac = std::string(chunk.macs, std::min<std::size_t>(chunk.macs.size(), i * kMacBytes), kMacBytes);
      mac.resize(kMacBytes);
      blob.add(fmt::format("mac {}", i), i < sealed.macs.size() ? sealed.macs[i] : mac);
    }
    if (is_cipher && sealing_) ciphertext_ = std::move(sealed.data);
  }

  void fill_hashes(std::size_t hashes_end, const std::string& data_length) {
    const auto& hashes = tensor_->header.hashes;
    if (!sealing_ || tensor_->header.raw_hashes || tensor_->sealed) return;
    std::string message = header_.bytes();
    if (draft_->layout->headers_first) {
      message.resize(header_.site("hashes_length").offset);
    } else {
      for (std::size_t i = 0; i < hashes.size(); ++i) {
        const Site& value = header_.site(hash_name(i, "hash value"));
        std::fill_n(message.begin() + static_cast<std::ptrdiff_t>(value.offset), value.size, '\0');
      }
      message.resize(draft_->encrypted ? hashes_end : message.size() - data_length.size());
    }
    message += data_length;
    for (std::size_t i = 0; i < hashes.size(); ++i) {
      const std::optional<std::string> right = hash_of(hashes[i].type, message, tensor_->data.bytes);
      if (!right || right->size() != hashes[i].stored.size()) continue;
      header_.fill(hash_name(i, "hash value"), *right);
    }
  }

  static constexpr std::size_t kLengthBytes = 8;
  static constexpr std::size_t kMacBytes = 16;

  const Draft* draft_;
  const DraftTensor* tensor_;
  const EntryFields* entry_;
  bool sealing_;
  Blob header_;
  std::optional<std::vector<std::byte>> ciphertext_;
};

// A header or the data of a tensor, and its position.
struct Placed {
  const DraftPlace* place = nullptr;
  std::size_t tensor = 0;
  bool is_data = false;
  std::uint64_t offset = 0;
};

class DraftFile {
 public:
  DraftFile(const Draft& draft, bool sealing, std::vector<Site>* sites) : draft_(&draft), sites_(sites) {
    records_.reserve(draft.tensors.size());
    entries_.resize(draft.tensors.size());
    offsets_.resize(draft.tensors.size());
    for (std::size_t i = 0; i < draft.tensors.size(); ++i) {
      index_bytes_ += index_entry(draft, draft.tensors[i], {}, entries_[i]).bytes().size();
      records_.emplace_back(draft, draft.tensors[i], entries_[i], sealing);
    }
    find_places();
  }

  std::vector<std::byte> write() {
    lay_out();
    add(file_header());
    if (draft_->layout->segments) add(layout_section());
    append(out_, draft_->metadata_gap.bytes);
    Blob index_length(draft_->deviations, "");
    index_length.add("index_length", index_bytes_ + draft_->index_rest.bytes.size(), 8);
    add(index_length);
    for (std::size_t i = 0; i < records_.size(); ++i) {
      EntryFields unused;
      add(index_entry(*draft_, draft_->tensors[i], offsets_[i], unused), i);
    }
    add_named("index rest", draft_->index_rest.bytes);
    append(out_, draft_->index_gap.bytes);
    for (const Placed& placed : places_) {
      if (&placed == first_data_) append(out_, draft_->data_gap.bytes);
      append(out_, placed.place->gap.bytes);
      if (placed.is_data) {
        add_named("data", records_[placed.tensor].data(), placed.tensor);
      } else {
        add(records_[placed.tensor].header(), placed.tensor);
      }
    }
    if (!first_data_) append(out_, draft_->data_gap.bytes);
    add_named("tail", draft_->tail.bytes);
    return std::move(out_);
  }

 private:
  void find_places() {
    for (std::size_t i = 0; i < draft_->tensors.size(); ++i) {
      const DraftTensor& tensor = draft_->tensors[i];
      if (tensor.header_place) places_.push_back({&*tensor.header_place, i, false});
      if (tensor.data_place) places_.push_back({&*tensor.data_place, i, true});
    }
    // Data without bytes goes before what begins at the same byte.
    const auto order = [&](const Placed& placed) {
      const bool empty = placed.is_data && draft_->tensors[placed.tensor].data.bytes.empty();
      return std::tuple(placed.place->rank, empty ? 0 : placed.is_data ? 2 : 1);
    };
    std::ranges::stable_sort(places_, [&](const Placed& a, const Placed& b) { return order(a) < order(b); });
    const auto first = std::ranges::find_if(places_, [](const Placed& p) { return p.is_data; });
    first_data_ = first == places_.end() ? nullptr : &*first;
  }

  void lay_out() {
    const bool segments = draft_->layout->segments;
    std::uint64_t at = kFileHeaderBytes + (segments ? kLayoutSectionBytes : 0) + draft_->metadata_gap.bytes.size();
    metadata_start_ = at;
    at += 8 + index_bytes_ + draft_->index_rest.bytes.size() + draft_->index_gap.bytes.size();
    header_start_ = at;
    data_start_ = 0;
    for (Placed& placed : places_) {
      if (&placed == first_data_) data_start_ = at += draft_->data_gap.bytes.size();
      at += placed.place->gap.bytes.size();
      placed.offset = at;
      at += placed.is_data ? draft_->tensors[placed.tensor].data.bytes.size()
                           : records_[placed.tensor].header().bytes().size();
    }
    if (!first_data_) data_start_ = at + draft_->data_gap.bytes.size();
    for (const Placed& placed : places_) {
      Offsets& offsets = offsets_[placed.tensor];
      const std::uint64_t base = !segments ? 0 : placed.is_data ? data_start_ : header_start_;
      (placed.is_data ? offsets.data : offsets.header) = placed.offset - base;
      // Data that cannot be found should begin there, too.
      if (!placed.is_data && !draft_->layout->headers_first && !draft_->tensors[placed.tensor].data_place) {
        offsets.data = placed.offset + records_[placed.tensor].header().bytes().size();
      }
    }
  }

  Blob file_header() const {
    Blob blob(draft_->deviations, "");
    std::uint64_t total_bytes = 0;
    for (const DraftTensor& tensor : draft_->tensors) total_bytes += tensor.data.bytes.size();
    blob.add("magic", draft_->magic);
    blob.add("data version", draft_->data_version, 4);
    blob.add("feature flags", draft_->flags);
    blob.add("total data bytes", total_bytes, 8);
    blob.add("unused", draft_->unused);
    blob.add("tensor count", draft_->tensors.size(), 8);
    return blob;
  }

  Blob layout_section() const {
    Blob blob(draft_->deviations, "");
    blob.add("layout_length", kLayoutSectionBytes - 8, 8);
    blob.add("layout_version", 1, 1);
    blob.add("entry_count", 3, 1);
    blob.add("metadata tag", 1, 1);
    blob.add("metadata_start", metadata_start_, 8);
    blob.add("metadata_end", header_start_, 8);
    blob.add("header tag", 2, 1);
    blob.add("header_start", header_start_, 8);
    blob.add("header_end", data_start_, 8);
    blob.add("data tag", 3, 1);
    blob.add("data_start", data_start_, 8);
    return blob;
  }

  void add(const Blob& blob, std::optional<std::size_t> tensor = std::nullopt) {
    if (sites_) {
      for (const Site& site : blob.sites())
        sites_->push_back({tensor, site.name, out_.size() + site.offset, site.size});
    }
    append(out_, std::as_bytes(std::span(blob.bytes())));
  }

  void add_named(const char* name, model::Bytes bytes, std::optional<std::size_t> tensor = std::nullopt) {
    if (sites_) sites_->push_back({tensor, name, out_.size(), bytes.size()});
    append(out_, bytes);
  }

  static constexpr std::uint64_t kFileHeaderBytes = 65;
  static constexpr std::uint64_t kLayoutSectionBytes = 53;

  const Draft* draft_;
  std::vector<Site>* sites_;
  std::vector<EntryFields> entries_;
  std::vector<DraftRecord> records_;
  std::vector<Placed> places_;
  const Placed* first_data_ = nullptr;
  std::vector<Offsets> offsets_;
  std::uint64_t index_bytes_ = 0;
  std::uint64_t metadata_start_ = 0;
  std::uint64_t header_start_ = 0;
  std::uint64_t data_start_ = 0;
  std::vector<std::byte> out_;
};

}  // namespace

Slice slice_of(std::vector<std::byte> bytes) {
  Slice slice;
  slice.owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  slice.bytes = *slice.owner;
  return slice;
}

std::vector<std::byte> put_together(const Draft& draft, bool sealing, std::vector<Site>* sites) {
  return DraftFile(draft, sealing, sites).write();
}

std::vector<std::byte> put_together(const Draft& draft, std::vector<Site>* sites) {
  return put_together(draft, true, sites);
}

}  // namespace tzmark::conformance::mutation
