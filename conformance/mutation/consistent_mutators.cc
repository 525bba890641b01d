// Changes the content of a file, and makes everything that depends on the change consistent with it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "model/text.h"
#include "mutation/choices.h"
#include "mutation/file_parts.h"
#include "mutation/mutators.h"
#include "mutation/odd_values.h"

namespace tzmark::conformance::mutation {
namespace {

std::string little_endian_text(std::uint64_t number, std::size_t size) {
  std::string text;
  for (std::size_t i = 0; i < size; ++i) text += static_cast<char>(number >> 8 * i & 0xff);
  return text;
}

// "tensor header: hash 1: hash value" is a field "hash value" of "tensor header: hash 1".
FilePart part_of_site(const Site& site) {
  const std::size_t colon = site.name.rfind(": ");
  if (colon != site.name.npos) return part_of(site.name.substr(0, colon), site.name.substr(colon + 2));
  if (site.name == "data") return FilePart::kData;
  if (site.name.starts_with("index")) return FilePart::kIndex;
  static const std::vector<std::string_view> header = {"magic",  "data version", "feature flags", "total data bytes",
                                                       "unused", "tensor count"};
  if (std::ranges::find(header, site.name) != header.end()) return FilePart::kFileHeader;
  return site.name == "tail" ? FilePart::kFile : FilePart::kLayoutSection;
}

class ConsistentChange {
 public:
  ConsistentChange(const Seed& seed, Random& random) : seed_(&seed), draft_(*seed.draft), random_(&random) {}

  FileChange make() {
    std::vector<FilePart> parts;
    for (const Site& site : seed_->sites) {
      if (std::ranges::find(parts, part_of_site(site)) == parts.end()) parts.push_back(part_of_site(site));
    }
    if (std::ranges::find(parts, FilePart::kFile) == parts.end()) parts.push_back(FilePart::kFile);
    const FilePart part = random_->pick(parts);
    const bool by_field = part == FilePart::kFileHeader || part == FilePart::kLayoutSection || random_->one_in(3);
    if (by_field && edit_field(part)) return {std::move(edited_), part, std::move(text_)};
    change_content(part);
    return {put_together(draft_), part, std::move(text_)};
  }

 private:
  // Tensors of a draft have places; a copy needs a new one.
  static constexpr std::uint64_t kRankStep = 2;

  // Changes one field and keeps its size. Returns whether there is one.
  bool edit_field(FilePart part) {
    std::vector<const Site*> candidates;
    for (const Site& site : seed_->sites) {
      if (part_of_site(site) == part && site.size > 0) candidates.push_back(&site);
    }
    if (candidates.empty()) return false;
    const Site& site = *random_->pick_by_kind(candidates, [](const Site* each) { return without_digits(each->name); });
    const std::string old(model::text_of(model::Bytes(seed_->bytes).subspan(site.offset, site.size)));
    const std::string changed = other_bytes(site, old);
    const auto bytes = std::as_bytes(std::span(changed));
    std::vector<std::uint64_t> keep;
    if (random_->one_in(3)) keep = copy_of(site);
    const Edit edit{site.offset, {bytes.begin(), bytes.end()}};
    std::optional<std::vector<std::byte>> file = apply_edits(*seed_->draft, seed_->sites, {edit}, keep);
    if (!file) return false;
    edited_ = std::move(*file);
    text_ = fmt::format("{}{} at byte {} becomes {}, {} follows", owner(site.tensor), site.name, site.offset,
                        model::hex_folded(bytes), keep.empty() ? "what depends on it" : "all but its copy");
    return true;
  }

  static std::string owner(const std::optional<std::size_t>& tensor) {
    return tensor ? fmt::format("tensor {}, ", *tensor) : "";
  }

  std::string other_bytes(const Site& site, const std::string& old) {
    const bool dims = site.name.ends_with(": dim");
    const bool is_text = site.name.ends_with("name") || site.name.ends_with("dtype") || site.name == "data";
    const std::size_t size = dims ? 4 : old.size();
    const bool is_number = (size == 1 || size == 2 || size == 4 || size == 8) && !is_text;
    if (is_number && !random_->one_in(8)) {
      std::string changed = old;
      const std::size_t place = dims ? random_->below(old.size() / size) * size : 0;
      const auto number = model::little_endian(std::as_bytes(std::span(old)).subspan(place, size));
      // An offset of another tensor lets two of them overlap.
      std::vector<std::uint64_t> others = numbers_like(site);
      const bool is_offset = site.name.ends_with("_offset") && others.size() > 1;
      if (is_offset && random_->one_in(2)) {
        return little_endian_text(random_->pick(others), size);
      }
      others.insert(others.end(), {seed_->bytes.size(), draft_.tensors.size()});
      changed.replace(place, size, little_endian_text(odd_number(number, size, others, *random_), size));
      return changed;
    }
    if (site.name.ends_with("dtype") && random_->one_in(2)) {
      std::string changed = odd_dtype(old, *random_);
      if (changed.size() == old.size()) return changed;
    }
    return site.name == "feature flags" ? odd_flags(old, *random_) : odd_bytes(old, *random_);
  }

  // The numbers of the sites of this name.
  std::vector<std::uint64_t> numbers_like(const Site& site) const {
    std::vector<std::uint64_t> numbers;
    for (const Site& other : seed_->sites) {
      if (other.name != site.name || other.size != site.size) continue;
      numbers.push_back(model::little_endian(model::Bytes(seed_->bytes).subspan(other.offset, other.size)));
    }
    return numbers;
  }

  // The copy in the tensor header of a field of the index.
  std::vector<std::uint64_t> copy_of(const Site& site) const {
    constexpr std::string_view kEntry = "index entry: ";
    if (!site.name.starts_with(kEntry)) return {};
    const std::string copy = "tensor header: " + site.name.substr(kEntry.size());
    for (const Site& other : seed_->sites) {
      if (other.tensor == site.tensor && other.name == copy && other.size > 0) return {other.offset};
    }
    return {};
  }

  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const DraftTensor& tensor : draft_.tensors) found.push_back(tensor.name);
    return found;
  }

  void change_content(FilePart part) {
    if (draft_.tensors.empty()) return change_gaps();
    const std::size_t i = random_->below(draft_.tensors.size());
    DraftTensor& tensor = draft_.tensors[i];
    text_ = fmt::format("tensor {}: ", i);
    switch (part) {
      case FilePart::kIndex:
        return change_entry(tensor);
      case FilePart::kTensorHeader:
        return change_header(tensor);
      case FilePart::kHashes:
        return change_hashes(tensor.header);
      case FilePart::kCryptBlock:
        return change_chunks(tensor.header);
      case FilePart::kData:
        return change_data(tensor);
      default:
        return random_->one_in(3) ? change_gaps() : change_tensors(i);
    }
  }

  void change_entry(DraftTensor& tensor) {
    const DraftCopies old = copies_of(tensor);
    switch (random_->below(6)) {
      case 0:
      case 1:
        tensor.name = odd_name(tensor.name, names(), *random_);
        if (tensor.name.starts_with('\x1e') && !random_->one_in(4)) tensor.kind = 2;
        text_ += fmt::format("its name becomes {}", model::in_quotes(tensor.name));
        break;
      case 2:
        tensor.dtype = odd_dtype(tensor.dtype, *random_);
        text_ += fmt::format("its dtype becomes {}", model::in_quotes(tensor.dtype));
        if (random_->one_in(2)) fit_shape(tensor);
        break;
      case 3:
        tensor.shape = odd_shape(tensor.shape, *random_);
        text_ += fmt::format("it has {} other dimensions", tensor.shape.size());
        break;
      case 4:
        tensor.kind = static_cast<std::uint8_t>(odd_number(tensor.kind, 1, {0, 1, 2, 3}, *random_));
        text_ += fmt::format("its kind becomes {}", tensor.kind);
        break;
      default:
        if (!draft_.layout->long_dims) {
          tensor.data = {};
          text_ += "it has no data any more";
          break;
        }
        tensor.entry_version = random_->pick({0u, 1u, 2u, 4u, 5u, 6u});
        text_ += fmt::format("its entry is of version {}", tensor.entry_version);
    }
    if (random_->one_in(4)) {
      tensor.header.copies = old;
      text_ += ", in the index alone";
    }
  }

  static DraftCopies copies_of(const DraftTensor& tensor) {
    DraftCopies copies{tensor.name, tensor.dtype, ""};
    for (const std::uint64_t dim : tensor.shape)
      copies.dims += little_endian_text(dim, tensor.entry_version == 5 ? 8 : 4);
    return copies;
  }

  // One dimension, with as many elements as there is data.
  void fit_shape(DraftTensor& tensor) {
    const std::size_t digits = tensor.dtype.find_first_of("123456789");
    const std::uint64_t item = digits == tensor.dtype.npos ? 1 : std::stoull(tensor.dtype.substr(digits, 2));
    tensor.shape = {tensor.data.bytes.size() / item};
    text_ += ", and its shape fits the data";
  }

  void change_header(DraftTensor& tensor) {
    DraftHeader& header = tensor.header;
    const std::size_t change = random_->below(4);
    if (change == 0) {
      // The order in which arguments are evaluated depends on the compiler.
      header.extra.resize(random_->pick<std::size_t>({1, 2, 7, 8, 10, 16}));
      if (random_->one_in(2)) header.extra.assign(header.extra.size(), '\1');
      text_ += fmt::format("{} bytes more in its header", header.extra.size());
      return;
    }
    DraftCopies& copies = header.copies.emplace(copies_of(tensor));
    if (change == 1) {
      copies.name = odd_name(copies.name, names(), *random_);
      text_ += fmt::format("its header has the name {}", model::in_quotes(copies.name));
    } else if (change == 2) {
      copies.dtype = odd_dtype(copies.dtype, *random_);
      text_ += fmt::format("its header has the dtype {}", model::in_quotes(copies.dtype));
    } else {
      copies.dims += std::string("\1\0\0\0", 4);
      text_ += "its header has a dimension more";
    }
  }

  void change_hashes(DraftHeader& header) {
    auto& hashes = header.hashes;
    switch (hashes.empty() ? 1 : random_->below(7)) {
      case 0:
        text_ += "its hashes are taken out";
        hashes.clear();
        break;
      case 1:
        text_ += "it has one more CRC32";
        hashes.push_back({0, std::string(4, '\0')});
        break;
      case 2:
        text_ += "one of its hashes is taken out";
        hashes.erase(hashes.begin() + static_cast<std::ptrdiff_t>(random_->below(hashes.size())));
        break;
      case 3:
        text_ += "its hashes stand in the other order";
        std::ranges::reverse(hashes);
        break;
      case 4:
        text_ += "one of its hashes stands there twice";
        hashes.push_back(random_->pick(hashes));
        break;
      case 5: {
        DraftHash& hash = hashes[random_->below(hashes.size())];
        hash.type = static_cast<std::uint8_t>(odd_number(hash.type, 1, {2, 3}, *random_));
        text_ += fmt::format("one of its hashes is of type {}", hash.type);
        break;
      }
      default: {
        DraftHash& hash = hashes[random_->below(hashes.size())];
        hash.stored.resize(random_->pick<std::size_t>({0, 1, 3, 4, 5, 16, 31, 32, 33}));
        text_ += fmt::format("one of its hashes has {} bytes", hash.stored.size());
      }
    }
  }

  void change_chunks(DraftHeader& header) {
    auto& chunks = header.chunks;
    if (chunks.empty()) {
      DraftChunk chunk;
      chunk.type = static_cast<std::uint16_t>(1 + random_->below(3));
      chunk.method = 1;
      chunk.opslimit = 1;
      chunk.memlimit = 8192;
      chunk.alg = 2;
      chunk.salt = std::string(16, 's');
      chunk.chunk_size = 1024;
      chunk.nonce = std::string(24, 'n');
      text_ += fmt::format("it has a crypt chunk of type {}", chunk.type);
      chunks.push_back(chunk);
      return;
    }
    DraftChunk& chunk = chunks[random_->below(chunks.size())];
    switch (random_->below(11)) {
      case 10:
        chunk.alg = static_cast<std::uint32_t>(odd_number(chunk.alg, 4, {}, *random_));
        text_ += fmt::format("its alg is {}", chunk.alg);
        break;
      case 9: {
        DraftChunk more = chunk;
        more.type = random_->pick<std::uint16_t>({0, 1, 2, 3, 4, 255});
        text_ += fmt::format("it has one more crypt chunk, of type {}", more.type);
        chunks.push_back(std::move(more));
        break;
      }
      case 0:
        text_ += fmt::format("its crypt chunk of type {} is taken out", chunk.type);
        chunks.erase(chunks.begin() + (&chunk - chunks.data()));
        break;
      case 1:
        text_ += fmt::format("its crypt chunk of type {} stands there twice", chunk.type);
        chunks.push_back(DraftChunk(chunk));
        break;
      case 2:
        text_ += "its crypt chunks stand in the other order";
        std::ranges::reverse(chunks);
        break;
      case 3:
        chunk.type = random_->pick<std::uint16_t>({0, 1, 2, 3, 4, 255});
        text_ += fmt::format("one of its crypt chunks is of type {}", chunk.type);
        break;
      case 4:
        chunk.chunk_size = random_->pick<std::uint64_t>({0, 1, 64, 960, 1000, 1023, 1024, 1025, 1056, 1088, 1 << 21});
        text_ += fmt::format("its chunk_size is {}", chunk.chunk_size);
        break;
      case 5:
        chunk.extra_macs = random_->pick<std::int64_t>({-1, 1, 2});
        text_ += fmt::format("it has {} MACs over what it needs", chunk.extra_macs);
        break;
      case 6:
        chunk.opslimit = random_->pick<std::uint64_t>({0, 2, 4, 5, kRefusedOpslimit});
        text_ += fmt::format("its opslimit is {}", chunk.opslimit);
        break;
      case 7:
        chunk.memlimit =
            random_->pick<std::uint64_t>({0, 1, 8191, 8193, 9000, kRefusedMemlimitBytes, std::uint64_t{1} << 40});
        text_ += fmt::format("its memlimit is {}", chunk.memlimit);
        break;
      default:
        chunk.salt.resize(random_->pick<std::size_t>({0, 8, 15, 17, 32}), 's');
        text_ += fmt::format("its salt has {} bytes", chunk.salt.size());
    }
  }

  void change_data(DraftTensor& tensor) {
    std::vector<std::byte> data(tensor.data.bytes.begin(), tensor.data.bytes.end());
    switch (random_->below(5)) {
      case 0:
        text_ += "its data is empty";
        data.clear();
        break;
      case 1:
        data.erase(data.end() - static_cast<std::ptrdiff_t>(std::min<std::size_t>(data.size(), 1 + random_->below(8))),
                   data.end());
        text_ += fmt::format("its data has {} bytes", data.size());
        break;
      case 2:
        data.resize(data.size() + random_->pick<std::size_t>({1, 4, 8, 1024}));
        text_ += fmt::format("its data has {} bytes", data.size());
        break;
      default: {
        const std::string changed = odd_bytes(std::string(model::text_of(data)), *random_);
        const auto bytes = std::as_bytes(std::span(changed));
        data.assign(bytes.begin(), bytes.end());
        text_ += "its data is another";
        if (data.size() == tensor.data.bytes.size()) break;
        text_ += fmt::format(", of {} bytes", data.size());
      }
    }
    tensor.data = slice_of(std::move(data));
  }

  // Changes the set or the order of tensors.
  void change_tensors(std::size_t i) {
    auto& tensors = draft_.tensors;
    const std::size_t other = random_->below(tensors.size());
    switch (random_->below(7)) {
      case 0:
        text_ += "it is taken out";
        tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(i));
        break;
      case 1:
        text_ += "it is there twice";
        add_copy(tensors[i], tensors[i].name);
        break;
      case 2:
        text_ += "it is there twice, with another name";
        add_copy(tensors[i], tensors[i].name.starts_with('\x1e') ? "\x1e[\"copy\",0]" : "copy");
        break;
      case 3:
        text_ += fmt::format("it and tensor {} change places in the index", other);
        std::swap(tensors[i], tensors[other]);
        break;
      case 4:
        text_ += fmt::format("its header and that of tensor {} change places", other);
        std::swap(tensors[i].header_place, tensors[other].header_place);
        break;
      case 5:
        text_ += fmt::format("its data and that of tensor {} change places", other);
        std::swap(tensors[i].data_place, tensors[other].data_place);
        break;
      default:
        text_ += fmt::format("its header is in the place of its data");
        std::swap(tensors[i].header_place, tensors[i].data_place);
    }
  }

  void add_copy(const DraftTensor& tensor, const std::string& name) {
    DraftTensor copy = tensor;
    copy.name = name;
    std::uint64_t rank = 0;
    for (const DraftTensor& each : draft_.tensors) {
      for (const auto* place : {&each.header_place, &each.data_place}) {
        if (*place) rank = std::max(rank, (*place)->rank);
      }
    }
    if (copy.header_place) copy.header_place = DraftPlace{rank + kRankStep, {}};
    if (copy.data_place) copy.data_place = DraftPlace{rank + 2 * kRankStep, {}};
    draft_.tensors.push_back(std::move(copy));
  }

  // Adds bytes where they are forbidden or optional.
  void change_gaps() {
    const std::size_t count = random_->pick<std::size_t>({1, 7, 8, 9, 64, 1024, 4096});
    std::vector<std::byte> bytes(count, static_cast<std::byte>(random_->pick({0, 0, 1, 0xff})));
    // A reader may look at the first of them alone.
    if (random_->one_in(2)) bytes.back() ^= std::byte{1};
    std::vector<std::pair<std::string, Slice*>> gaps = {{"behind the entries", &draft_.index_rest},
                                                        {"behind the file", &draft_.tail}};
    if (draft_.layout->segments) {
      gaps.emplace_back("before the index", &draft_.metadata_gap);
      gaps.emplace_back("behind the index", &draft_.index_gap);
      gaps.emplace_back("before the data", &draft_.data_gap);
    }
    // Most gaps are those of tensors.
    const bool among_tensors = random_->one_in(2);
    for (DraftTensor& tensor : draft_.tensors) {
      if (!among_tensors) break;
      if (tensor.header_place) gaps.emplace_back("before a header", &tensor.header_place->gap);
      if (tensor.data_place) gaps.emplace_back("before data", &tensor.data_place->gap);
    }
    auto& [where, slice] = gaps[random_->below(gaps.size())];
    const bool shorten = !slice->bytes.empty() && random_->one_in(2);
    if (shorten) {
      *slice = slice->first(random_->below(slice->bytes.size()));
      text_ = fmt::format("fewer bytes {}", where);
      return;
    }
    text_ = fmt::format("{} bytes more {}", count, where);
    bytes.insert(bytes.begin(), slice->bytes.begin(), slice->bytes.end());
    *slice = slice_of(std::move(bytes));
  }

  const Seed* seed_;
  Draft draft_;
  Random* random_;
  std::vector<std::byte> edited_;
  std::string text_;
};

}  // namespace

FileChange change_consistently(const Seed& seed, Random& random) { return ConsistentChange(seed, random).make(); }

}  // namespace tzmark::conformance::mutation
