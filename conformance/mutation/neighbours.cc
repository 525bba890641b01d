// Valid neighbours of valid files; see neighbours.h.
#include "mutation/neighbours.h"

#include <fmt/format.h>
#include <sodium.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <map>
#include <stdexcept>
#include <utility>

#include "model/dtypes.h"
#include "model/tensor_names.h"
#include "model/text.h"
#include "mutation/odd_values.h"

namespace tzmark::conformance::mutation {
namespace {

// Tensors of a draft have places; a copy needs new ones.
constexpr std::uint64_t kRankStep = 2;

// The change of the last four bytes of a message that changes its CRC32 by so much. CRC32 is linear in what changes.
std::uint32_t change_of_last_bytes(std::uint32_t crc32_change) {
  const auto change_by = [](std::uint32_t bytes) {
    constexpr std::array<unsigned char, 4> zeros{};
    const auto text = std::bit_cast<std::array<unsigned char, 4>>(bytes);
    return static_cast<std::uint32_t>(crc32_z(0, text.data(), 4) ^ crc32_z(0, zeros.data(), 4));
  };
  // Gauss's elimination: the single bits, by the highest bit of the CRC32 that they change.
  std::map<int, std::pair<std::uint32_t, std::uint32_t>> basis;
  for (int bit = 0; bit < 32; ++bit) {
    std::uint32_t bytes = std::uint32_t{1} << bit;
    std::uint32_t change = change_by(bytes);
    while (change != 0) {
      const int highest = std::bit_width(change);
      const auto [found, added] = basis.try_emplace(highest, bytes, change);
      if (added) break;
      bytes ^= found->second.first;
      change ^= found->second.second;
    }
  }
  std::uint32_t bytes = 0;
  while (crc32_change != 0) {
    const auto& [basis_bytes, change] = basis.at(std::bit_width(crc32_change));
    bytes ^= basis_bytes;
    crc32_change ^= change;
  }
  return bytes;
}

class Neighbouring {
 public:
  Neighbouring(const Seed& seed, Random& random) : seed_(&seed), draft_(*seed.draft), random_(&random) {}

  Neighbour make() {
    if (draft_.tensors.empty()) return {std::move(draft_), part_, "nothing"};
    // What a reader does with the first tensor says nothing of those in the middle and at the end.
    if (random_->one_in(3)) add_tensors(random_->pick<std::size_t>({2, 2, 3, 4, 8}));
    at_ = random_->pick<std::size_t>({0, draft_.tensors.size() / 2, draft_.tensors.size() - 1});
    text_ += fmt::format("tensor {}: ", at_);
    change(tensor());
    return {std::move(draft_), part_, std::move(text_)};
  }

 private:
  DraftTensor& tensor() { return draft_.tensors[at_]; }

  void change(DraftTensor& tensor) {
    const bool has_chunks = !tensor.header.chunks.empty() && !tensor.header.raw_crypt;
    switch (random_->below(has_chunks ? 13 : 9)) {
      case 0:
        part_ = FilePart::kIndex;
        return change_name(tensor);
      case 1:
        part_ = FilePart::kIndex;
        return change_position(tensor);
      case 2:
        part_ = FilePart::kIndex;
        return change_dtype(tensor);
      case 3:
        part_ = FilePart::kIndex;
        return change_dims(tensor);
      case 4:
        part_ = FilePart::kData;
        return change_length(tensor);
      case 5:
        part_ = FilePart::kHashes;
        return change_hashes(tensor.header);
      case 6:
        part_ = FilePart::kFile;
        text_ += "copies of one, ";
        return add_tensors(unusual_tensor_count(*random_));
      case 7:
        part_ = FilePart::kHashes;
        return collide(tensor);
      case 8:
        part_ = FilePart::kTensorHeader;
        tensor.header.module_index = unusual_module_index(*random_);
        text_ += fmt::format("its module_index is {}", tensor.header.module_index);
        return;
      case 9:
      case 10:
        part_ = FilePart::kCryptBlock;
        return change_derivation(tensor);
      default:
        part_ = FilePart::kCryptBlock;
        return change_chunk_size(tensor);
    }
  }

  // Whether the plain name, as a path of one string, fits into the tree of the others.
  bool has_positions_at_top() const {
    return std::ranges::any_of(draft_.tensors, [](const DraftTensor& tensor) {
      const auto path = model::parse_name(tensor.name, 2).path;
      return path && !path->empty() && std::holds_alternative<std::uint64_t>(path->front());
    });
  }

  std::string free_name(std::size_t number) const {
    return has_positions_at_top() ? fmt::format("\x1e[{}]", 1000000 + number) : fmt::format("copy.{}", number);
  }

  // Small copies, so that many do not make a large file.
  void add_tensors(std::size_t count) {
    const DraftTensor pattern = draft_.tensors[random_->below(draft_.tensors.size())];
    if (!pattern.header_place || pattern.header.raw) return;
    std::uint64_t rank = 0;
    for (const DraftTensor& each : draft_.tensors) {
      for (const auto* place : {&each.header_place, &each.data_place}) {
        if (*place) rank = std::max(rank, (*place)->rank);
      }
    }
    const bool with_positions = has_positions_at_top();
    for (std::size_t i = draft_.tensors.size(); i < count + 1; ++i) {
      DraftTensor copy = pattern;
      copy.name = free_name(i);
      if (with_positions) copy.kind = 2;
      copy.header.copies.reset();
      rank += kRankStep;
      copy.header_place = DraftPlace{rank, {}};
      if (copy.data_place) copy.data_place = DraftPlace{rank += kRankStep, {}};
      const std::uint64_t item = model::dtype_of(copy.dtype).item_bytes;
      if (count > 8 && item > 0 && copy.data.bytes.size() > item) set_data(copy, {1}, item);
      // Each has other data.
      if (!copy.data.bytes.empty()) {
        std::vector<std::byte> data(copy.data.bytes.begin(), copy.data.bytes.end());
        data.front() ^= static_cast<std::byte>(i & 0xff);
        copy.data = slice_of(std::move(data));
      }
      draft_.tensors.push_back(std::move(copy));
    }
    text_ += fmt::format("{} tensors; ", draft_.tensors.size());
  }

  void set_data(DraftTensor& tensor, std::vector<std::uint64_t> shape, std::uint64_t bytes) {
    std::vector<std::byte> data(tensor.data.bytes.begin(), tensor.data.bytes.end());
    const std::size_t had = std::min<std::size_t>(data.size(), bytes);
    data.resize(bytes);
    for (std::size_t i = had; i < data.size(); ++i) data[i] = static_cast<std::byte>(random_->next());
    tensor.shape = std::move(shape);
    tensor.data = slice_of(std::move(data));
  }

  // Chunks of a tensor without data are faults.
  void empty_data(DraftTensor& tensor) {
    tensor.data = {};
    tensor.header.chunks.clear();
  }

  // A tensor with data, and with a cipher for it if the file is encrypted.
  bool has_data(const DraftTensor& tensor) const { return !tensor.data.bytes.empty() && !tensor.sealed; }

  void change_name(DraftTensor& tensor) {
    std::string name = random_->one_in(2) ? unusual_text(*random_) : "";
    if (random_->one_in(3)) {
      name += unusual_text(*random_);
    } else {
      name.resize(std::max(unusual_name_bytes(*random_), name.size()), 'n');
    }
    const bool structured = random_->one_in(3) && name.size() < 4096 && !has_positions_at_top();
    if (structured) {
      tensor.kind = 2;
      name = model::serialize_name({name, std::uint64_t{0}});
    } else if (has_positions_at_top()) {
      return change_position(tensor);
    }
    tensor.name = std::move(name);
    tensor.header.copies.reset();
    text_ += fmt::format("its name becomes one of {} bytes: {}", tensor.name.size(), model::in_quotes(tensor.name));
  }

  void change_position(DraftTensor& tensor) {
    model::Path path;
    if (!has_positions_at_top()) path.emplace_back("list");
    path.emplace_back(unusual_position(*random_));
    if (random_->one_in(3)) path.emplace_back(unusual_position(*random_));
    tensor.kind = 2;
    tensor.name = model::serialize_name(path);
    tensor.header.copies.reset();
    text_ += fmt::format("its name becomes {}", model::in_quotes(tensor.name));
  }

  std::string some_dtype() {
    static const std::vector<std::string> codes = {"b1", "i1", "i2", "i4", "i8", "u1", "u2",
                                                   "u4", "u8", "f2", "f4", "f8", "c8", "c16"};
    static const std::vector<std::string> units = {"Y",  "M",  "W",  "D",  "h",  "m",   "s",           "ms",
                                                   "us", "ns", "ps", "fs", "as", "25s", "2147483647ns"};
    static const std::vector<std::string> opaque = {
        std::string("<V2\0torch.bfloat16", 18),      std::string("<V4\0torch.complex32", 19),
        std::string("<V1\0torch.bits8", 15),         std::string("|V1\0torch.bits8", 15),
        std::string("|V1\0torch.float8_e4m3fn", 23), std::string("|V1\0torch.float8_e4m3fnuz", 25),
        std::string("|V1\0torch.float8_e5m2", 21),   std::string("|V1\0torch.float8_e5m2fnuz", 25),
        std::string("|V1\0torch.float8_e8m0fnu", 24)};
    switch (random_->below(6)) {
      case 0:
        return random_->pick(opaque);
      case 1: {
        std::string dtype("|V1\0torch.float8_", 17);
        dtype.resize(random_->pick<std::size_t>({19, 63, 64, 126, 127, 128, 129, 167, 191, 254, 255}), 'x');
        return dtype;
      }
      case 2: {
        const std::string head = random_->pick<std::string>({"<M8", "<m8", ">M8", ">m8"});
        return random_->one_in(4) ? head : fmt::format("{}[{}]", head, random_->pick(units));
      }
      case 3: {
        const auto count = random_->pick<std::uint64_t>({1, 2, 9, 10, 127, 128, 255, 256, 300, 32768, 65536});
        return random_->one_in(2) || count > 300 ? fmt::format("|S{}", count)
                                                 : fmt::format("{}U{}", random_->pick({'<', '>'}), count);
      }
      default: {
        const std::string& code = random_->pick(codes);
        const char mark = code.ends_with("1") ? random_->pick({'|', '<', '>'}) : random_->pick({'<', '>'});
        return mark + code;
      }
    }
  }

  void change_dtype(DraftTensor& tensor) {
    tensor.dtype = some_dtype();
    tensor.header.copies.reset();
    text_ += fmt::format("its dtype becomes {}, and its shape fits", model::in_quotes(tensor.dtype));
    if (!has_data(tensor)) return;
    const std::uint64_t item = model::dtype_of(tensor.dtype).item_bytes;
    const std::uint64_t count = item > 1024 ? 1 : std::max<std::uint64_t>(1, tensor.data.bytes.size() / item);
    set_data(tensor, {count}, count * item);
  }

  void change_dims(DraftTensor& tensor) {
    tensor.header.copies.reset();
    if (!has_data(tensor) || random_->one_in(3)) return change_dims_without_data(tensor);
    tensor.dtype = "|u1";
    switch (random_->below(4)) {
      case 0: {
        std::vector<std::uint64_t> shape = {2, 2, 3, 1};
        for (std::size_t i = shape.size() - 1; i > 0; --i) std::swap(shape[i], shape[random_->below(i + 1)]);
        set_data(tensor, shape, 12);
        break;
      }
      case 1: {
        const auto ones = random_->pick<std::size_t>({5, 7, 8, 9, 16, 31, 32, 64, 127, 128, 254});
        std::vector<std::uint64_t> shape(ones, 1);
        shape.push_back(2);
        set_data(tensor, shape, 2);
        break;
      }
      case 2: {
        const std::uint64_t count = unusual_dim(4097, *random_);
        set_data(tensor, {count, 3}, 3 * count);
        break;
      }
      default: {
        const auto count = random_->pick<std::uint64_t>({127, 128, 255, 256, 257, 32767, 32768, 65535, 65536, 65537});
        set_data(tensor, {count}, count);
      }
    }
    text_ += fmt::format("it has {} other dimensions", tensor.shape.size());
  }

  void change_dims_without_data(DraftTensor& tensor) {
    const bool long_dims = draft_.layout->long_dims;
    const std::uint64_t dim = unusual_dim(long_dims ? k63 : k32 - 1, *random_);
    const bool meta = draft_.layout->data_version >= 4 && random_->one_in(2);
    tensor.dtype = "|u1";
    tensor.shape = meta ? std::vector<std::uint64_t>{dim} : std::vector<std::uint64_t>{dim, 0};
    if (!meta && random_->one_in(2)) std::swap(tensor.shape[0], tensor.shape[1]);
    if (long_dims) tensor.entry_version = dim >= k32 ? 5 : 1;
    empty_data(tensor);
    text_ += fmt::format("it has a dimension of {} and no data", dim);
  }

  void change_length(DraftTensor& tensor) {
    if (!has_data(tensor)) return change_name(tensor);
    const DraftChunk* const cipher = tensor.header.chunks.empty() ? nullptr : &tensor.header.chunks.back();
    std::uint64_t bytes = unusual_length(*random_);
    // A last message of one byte, and one that is full.
    if (cipher && cipher->chunk_size >= 1024 && cipher->chunk_size <= 65536 && random_->one_in(2)) {
      const auto messages = random_->pick<std::uint64_t>({1, 1, 2, 2, 3, 15, 16, 17});
      bytes = std::min<std::uint64_t>(messages * cipher->chunk_size, 1 << 18) +
              random_->pick<std::uint64_t>({UINT64_MAX, 0, 1, 1, 5});
    }
    tensor.header.copies.reset();
    tensor.dtype = "|u1";
    set_data(tensor, {bytes}, bytes);
    text_ += fmt::format("its data has {} bytes", bytes);
  }

  void change_hashes(DraftHeader& header) {
    if (header.raw_hashes) return;
    const auto count = random_->pick<std::size_t>({2, 3, 4, 5, 8, 9, 16, 127, 128, 129, 254, 255});
    const std::uint64_t sort = random_->below(3);
    header.hashes.clear();
    for (std::size_t i = 0; i < count; ++i) {
      const bool sha256 = i == count / 2 || sort == 0 || (sort == 1 && i % 2 == 0);
      header.hashes.push_back({static_cast<std::uint8_t>(sha256 ? model::kHashSha256 : model::kHashCrc32),
                               std::string(sha256 ? 32 : 4, '\0')});
    }
    text_ += fmt::format("it has {} hashes", count);
  }

  // Another tensor with other data and the same CRC32.
  void collide(DraftTensor& first) {
    constexpr std::size_t kChangedBytes = 4;
    if (!has_data(first) || first.data.bytes.size() < kChangedBytes || first.header.raw_hashes) {
      return change_hashes(first.header);
    }
    first.header.hashes = {{model::kHashCrc32, std::string(4, '\0')}, {model::kHashSha256, std::string(32, '\0')}};
    const std::size_t other = draft_.tensors.size();
    DraftTensor copy = first;
    draft_.tensors = {std::move(copy)};
    at_ = 0;
    add_tensors(1);
    if (draft_.tensors.size() < 2 || other == 0) return;
    // Before anything is encrypted, so that the sites are those of plain data.
    std::vector<Site> sites;
    const std::vector<std::byte> file = put_together(draft_, &sites);
    std::array<std::uint32_t, 2> crc32s{};
    for (const Site& site : sites) {
      if (site.name != "tensor header: hash 0: hash value" || !site.tensor || *site.tensor > 1) continue;
      crc32s[*site.tensor] =
          static_cast<std::uint32_t>(model::little_endian(model::Bytes(file).subspan(site.offset, kChangedBytes)));
    }
    DraftTensor& last = draft_.tensors[1];
    std::vector<std::byte> data(last.data.bytes.begin(), last.data.bytes.end());
    const auto change =
        std::bit_cast<std::array<std::byte, kChangedBytes>>(change_of_last_bytes(crc32s[0] ^ crc32s[1]));
    for (std::size_t i = 0; i < kChangedBytes; ++i) data[data.size() - kChangedBytes + i] ^= change[i];
    last.data = slice_of(std::move(data));
    text_ += "alone with another one of the same CRC32 and other data";
  }

  // Other numbers that a key is derived from, and the key.
  void change_derivation(DraftTensor& tensor) {
    auto& chunks = tensor.header.chunks;
    const auto derivation = std::ranges::find(chunks, model::kChunkKeyDerivation, &DraftChunk::type);
    const std::optional<std::string>& passphrase = seed_->item->passphrase;
    if (!passphrase) {
      if (derivation == chunks.end()) {
        DraftChunk chunk;
        chunk.type = model::kChunkKeyDerivation;
        chunk.method = 1;
        chunk.alg = 2;
        chunk.salt = std::string(16, 's');
        chunks.insert(chunks.begin(), chunk);
      }
      DraftChunk& chunk = *std::ranges::find(chunks, model::kChunkKeyDerivation, &DraftChunk::type);
      chunk.opslimit = random_->pick<std::uint64_t>({1, 4, 5, 255, 256, 65536, k32 - 1, k32, k53 + 1, UINT64_MAX});
      chunk.memlimit = random_->pick<std::uint64_t>({8192, 8193, 65536, 1 << 30, k32, k32 + 8192, UINT64_MAX});
      text_ +=
          fmt::format("a derivation of opslimit {} and memlimit {} along with its key", chunk.opslimit, chunk.memlimit);
      return;
    }
    if (derivation == chunks.end() || !tensor.key) return change_chunk_size(tensor);
    if (draft_.tensors.size() == 1) {
      add_tensors(1);
      return change_own_derivation(draft_.tensors.back(), *passphrase);
    }
    change_own_derivation(tensor, *passphrase);
  }

  void change_own_derivation(DraftTensor& tensor, const std::string& passphrase) {
    auto& chunks = tensor.header.chunks;
    const auto found = std::ranges::find(chunks, model::kChunkKeyDerivation, &DraftChunk::type);
    if (found == chunks.end() || found->salt.size() != crypto_pwhash_SALTBYTES || !tensor.key) return;
    // The same salt with other numbers, or another salt.
    if (random_->one_in(3)) {
      found->salt[random_->below(found->salt.size())] ^= 1;
    } else {
      found->opslimit = random_->pick<std::uint64_t>({1, 2, 3});
      found->memlimit = random_->pick<std::uint64_t>({8192, 8193, 9000, 16384, 65535, 65536, 65537});
    }
    errno = 0;
    const int failed = crypto_pwhash(tensor.key->data(), tensor.key->size(), passphrase.data(), passphrase.size(),
                                     reinterpret_cast<const unsigned char*>(found->salt.data()), found->opslimit,
                                     found->memlimit, static_cast<int>(found->alg));
    if (failed) throw std::runtime_error("there is no memory to derive a key");
    text_ += fmt::format("its key is derived with opslimit {} and memlimit {} from a salt", found->opslimit,
                         found->memlimit);
  }

  void change_chunk_size(DraftTensor& tensor) {
    auto& chunks = tensor.header.chunks;
    const auto cipher = std::ranges::find(chunks, model::kChunkParallel, &DraftChunk::type);
    if (cipher == chunks.end() || !tensor.key) return change_length(tensor);
    if (random_->one_in(8)) {
      cipher->chunk_size = 1024;
      std::uint64_t bytes = 1024 * random_->pick<std::uint64_t>({127, 128, 255, 256, 257});
      if (random_->one_in(2)) --bytes;
      tensor.header.copies.reset();
      tensor.dtype = "|u1";
      set_data(tensor, {bytes}, bytes);
    } else {
      cipher->chunk_size = random_->pick<std::uint64_t>(
          {1024, 1088, 4096, 32768, 65536, 65536 + 64, 1 << 20, 1 << 21, k32 / 2, k32, k32 + 1024, k53 + 64, k63});
    }
    text_ += fmt::format("its chunk_size is {}, of {} bytes of data", cipher->chunk_size, tensor.data.bytes.size());
  }

  const Seed* seed_;
  Draft draft_;
  Random* random_;
  std::size_t at_ = 0;
  FilePart part_ = FilePart::kFile;
  std::string text_;
};

}  // namespace

Neighbour make_neighbour(const Seed& seed, Random& random) { return Neighbouring(seed, random).make(); }

}  // namespace tzmark::conformance::mutation
