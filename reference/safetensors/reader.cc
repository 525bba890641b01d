// Opening, listing and reading safetensors files, single or sharded.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>

#include "bytes/cursor.h"
#include "bytes/digest.h"
#include "codec/foreign_file.h"
#include "codec/range_read.h"
#include "io/paths.h"
#include "io/url.h"
#include "safetensors/dtypes.h"
#include "safetensors/header.h"
#include "safetensors/pass.h"
#include "safetensors/shard_files.h"
#include "safetensors/shard_index.h"
#include "tzmark/device.h"
#include "tzmark/error.h"

namespace tzmark {

using safetensors::Header;
using safetensors::Listing;
using safetensors::ShardFiles;
using safetensors::ShardIndex;

namespace {

// Runs action. The message of an Error then begins with the name of the shard; it is empty in a model of one file.
template <typename Action>
auto about_shard(const std::string& shard, Action&& action) {
  return shard.empty() ? action() : with_context(shard, action);
}

std::string read_text(File& file, std::uint64_t offset, std::uint64_t length) {
  std::string text(static_cast<std::size_t>(length), '\0');
  file.read_at(offset, MutableBuffer(reinterpret_cast<std::byte*>(text.data()), text.size()));
  return text;
}

class ShardStream final : public TensorStream {
 public:
  // name: of the shard, for errors.
  ShardStream(ShardFiles& files, std::size_t shard, std::string name, std::uint64_t begin, std::uint64_t length)
      : files_(files), shard_(shard), name_(std::move(name)), begin_(begin), length_(length) {}

  void read(std::uint64_t offset, MutableBuffer out) override {
    check_range(offset, out.size, length_);
    if (out.size == 0) return;
    about_shard(name_, [&] { files_.with(shard_, [&](File& file) { file.read_at(begin_ + offset, out); }); });
  }

 private:
  ShardFiles& files_;
  const std::size_t shard_;
  const std::string name_;
  const std::uint64_t begin_, length_;
};

}  // namespace

struct SafetensorsReader::State {
  explicit State(SafetensorsReadOptions o) : options(std::move(o)), files(options.io_path) {}

  const SafetensorsReadOptions options;
  bool sharded = false;
  std::optional<FileVersion> index_version;
  std::map<std::string, std::string> index_metadata;
  std::vector<SafetensorsShard> shards;
  std::vector<Listing> listings;          // of each shard
  std::vector<std::size_t> first_tensor;  // of each shard, then the total number
  ShardFiles files;

  // The name at the beginning of errors in a shard.
  std::string error_name(std::size_t shard) const { return sharded ? shards[shard].file_name : std::string(); }

  std::size_t shard_of(std::size_t tensor) const {
    return static_cast<std::size_t>(std::ranges::upper_bound(first_tensor, tensor) - first_tensor.begin()) - 1;
  }

  const Listing::Tensor& record(std::size_t tensor) const {
    const std::size_t shard = shard_of(tensor);
    return listings[shard][tensor - first_tensor[shard]];
  }

  // Calls action with the file, and names the shard in errors.
  template <typename Action>
  void with_file(std::size_t shard, Action&& action) {
    about_shard(error_name(shard), [&] { files.with(shard, action); });
  }

  void read(std::size_t shard, std::uint64_t offset, MutableBuffer out) {
    with_file(shard, [&](File& file) { read_range(file, offset, out, range_options(file)); });
  }

  void read_into_device(std::size_t shard, std::span<const RangeTarget> ranges, const DeviceReadOptions& device) {
    with_file(shard, [&](File& file) {
      RangeReadOptions range = range_options(file);
      range.piece_bytes = std::max(device.piece_bytes, range.piece_bytes);
      range.pinned_bytes_max = device.pinned_bytes_max;
      if (!file.moves_device_memory()) return read_ranges(file, ranges, range);
      // For gpudirect, the memory of each range is registered by itself.
      for (const auto& [offset, out] : ranges) read_range(file, offset, out, range);
    });
  }

  RangeReadOptions range_options(const File& file) const {
    return {.threads = options.threads,
            .piece_bytes = piece_bytes_for(file, options.piece_bytes),
            .progress = options.progress};
  }

  // Reads the header of a file, and adds it as a shard.
  void add(File& file, const std::string& file_name) {
    const auto is_beginning = [](ErrorCode code) {
      return code >= ErrorCode::kStTruncated && code <= ErrorCode::kStHeaderStart;
    };
    describing_foreign(file, ReadAs::kSafetensors, is_beginning, [&] { add_header(file, file_name); });
  }

  void add_header(File& file, const std::string& file_name) {
    const std::uint64_t file_bytes = file.size();
    std::array<std::byte, safetensors::kLengthBytes> length{};
    const auto available = static_cast<std::size_t>(std::min<std::uint64_t>(length.size(), file_bytes));
    file.read_at(0, MutableBuffer(length.data(), available));
    const std::uint64_t header_bytes = safetensors::check_header_length(std::span(length).first(available), file_bytes);
    const std::string text = read_text(file, length.size(), header_bytes);
    Header header = safetensors::parse_header(text, file_bytes, options.profile);
    if (first_tensor.empty()) first_tensor.push_back(0);
    first_tensor.push_back(first_tensor.back() + header.listing.size());
    shards.push_back({file_name, file_bytes, length.size() + header_bytes, std::move(header.metadata), file.version()});
    listings.push_back(std::move(header.listing));
  }

  // Opens all shards, and compares them with the index. place_of: returns what to open for the name of a shard.
  void add_shards(const ShardIndex& index, const std::function<std::string(const std::string&)>& place_of) {
    sharded = true;
    std::vector<std::uint32_t> mapped(index.files().size());
    for (const ShardIndex::Tensor& tensor : index.tensors()) ++mapped[tensor.file];
    for (const std::string& file_name : index.files()) files.add(place_of(file_name));
    for (std::size_t shard = 0; shard < index.files().size(); ++shard) {
      const std::string& file_name = index.files()[shard];
      about_shard(file_name, [&] { files.with(shard, [&](File& file) { add(file, file_name); }); });
    }
    for (const ShardIndex::Tensor& tensor : index.tensors()) {
      if (listings[tensor.file].find(index.name(tensor))) continue;
      throw Error(ErrorCode::kStShardsDisagree,
                  fmt::format("the index maps '{}' to {}, which does not contain it", index.name(tensor),
                              shards[tensor.file].file_name),
                  tensor.at);
    }
    // All mapped tensors exist, so a shard with more tensors has one that is not mapped.
    for (std::size_t shard = 0; shard < shards.size(); ++shard) {
      if (listings[shard].size() != mapped[shard]) throw_unmapped(index, shard);
    }
  }

  [[noreturn]] void throw_unmapped(const ShardIndex& index, std::size_t shard) const {
    const Listing& listing = listings[shard];
    std::size_t i = 0;
    for (; i < listing.size(); ++i) {
      const auto* const found = index.find(listing.name(listing[i]));
      if (found == nullptr || found->file != shard) break;
    }
    throw Error(ErrorCode::kStShardsDisagree,
                fmt::format("{} contains the tensor '{}', which the index does not map to it", shards[shard].file_name,
                            listing.name(listing[i])),
                safetensors::kLengthBytes + listing[i].key_at);
  }
};

namespace {

// Hashes every tensor, or only reads it.
class ScanPass final : public safetensors::Pass {
 public:
  using Done = std::function<void(std::size_t, const Sha256Digest&)>;

  // Scans the tensors from first to before end. file: of the shard that has them, for transfers; may be null.
  ScanPass(const SafetensorsReader& reader, std::size_t first, std::size_t end, File* file, const Progress& progress,
           const Done& done)
      : reader_(reader), first_(first), end_(end), file_(file), progress_(progress), done_(done) {}

  std::size_t count() const override { return end_ - first_; }
  std::uint64_t length(std::size_t tensor) const override { return reader_[first_ + tensor].data_length(); }
  bool hashes() const override { return done_ != nullptr; }
  File* file() const override { return file_; }
  std::uint64_t file_offset(std::size_t number) const override {
    const SafetensorsTensor tensor = reader_[first_ + number];
    return reader_.shards()[tensor.shard].data_begin + tensor.begin;
  }
  std::unique_ptr<safetensors::PassedTensor> open(std::size_t tensor) override {
    return std::make_unique<Scanned>(*this, first_ + tensor);
  }
  void put(std::size_t, std::uint64_t, std::span<const std::byte> data) override {
    if (progress_) progress_(data.size());
  }

 private:
  class Scanned final : public safetensors::PassedTensor {
   public:
    Scanned(ScanPass& pass, std::size_t tensor) : pass_(pass), tensor_(tensor), stream_(pass.reader_.open(tensor)) {
      if (pass_.done_) sha256_.emplace();
    }
    std::uint32_t read(std::uint64_t offset, std::span<std::byte> data) override {
      stream_->read(offset, data);
      return 0;
    }
    void hash(std::span<const std::byte> data, std::uint32_t, std::vector<Sha256Part>& later) override {
      if (sha256_) later.push_back({&*sha256_, data});
    }
    void finish() override {
      if (!sha256_) return;
      const Sha256Digest digest = sha256_->finish();
      const std::lock_guard lock(pass_.mutex_);
      pass_.done_(tensor_, digest);
    }

   private:
    ScanPass& pass_;
    const std::size_t tensor_;
    std::unique_ptr<TensorStream> stream_;
    std::optional<Sha256> sha256_;
  };

  const SafetensorsReader& reader_;
  const std::size_t first_, end_;
  File* const file_;
  const Progress& progress_;
  const Done& done_;
  std::mutex mutex_;
};

}  // namespace

std::string_view safetensors_profile_name(SafetensorsProfile profile) {
  return profile == SafetensorsProfile::kSpec ? "spec" : "library";
}

std::optional<SafetensorsProfile> safetensors_profile_from_name(std::string_view name) {
  for (const auto profile : {SafetensorsProfile::kSpec, SafetensorsProfile::kLibrary}) {
    if (name == safetensors_profile_name(profile)) return profile;
  }
  return std::nullopt;
}

SafetensorsReader::SafetensorsReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
SafetensorsReader::~SafetensorsReader() = default;
SafetensorsReader::SafetensorsReader(SafetensorsReader&&) noexcept = default;
SafetensorsReader& SafetensorsReader::operator=(SafetensorsReader&&) noexcept = default;

SafetensorsReader::SafetensorsReader(std::unique_ptr<File> file, SafetensorsReadOptions options)
    : state_(std::make_unique<State>(std::move(options))) {
  state_->files.add(std::move(file));
  state_->files.with(0, [&](File& only) { state_->add(only, ""); });
}

SafetensorsReader SafetensorsReader::open(const std::string& file_name, SafetensorsReadOptions options) {
  if (file_name == "-") return SafetensorsReader(spool(STDIN_FILENO), std::move(options));
  auto file = open_file(file_name, OpenMode::kRead, options.io_path);
  return open(std::move(file), file_name, std::move(options));
}

SafetensorsReader SafetensorsReader::open(std::unique_ptr<File> file, const std::string& file_name,
                                          SafetensorsReadOptions options) {
  const std::string last_part =
      is_url(file_name) ? last_part_of_url(file_name) : std::filesystem::path(file_name).filename().string();
  if (!safetensors::is_shard_index(*file, last_part)) {
    SafetensorsReader reader(std::move(file), std::move(options));
    reader.state_->shards.front().file_name = last_part;
    return reader;
  }
  if (file->size() > safetensors::kShardIndexBytesMax) {
    throw Error(ErrorCode::kStShardIndex, fmt::format("an index of {} bytes exceeds the maximum of {}", file->size(),
                                                      safetensors::kShardIndexBytesMax));
  }
  const std::string io_path = options.io_path;
  auto state = std::make_unique<State>(std::move(options));
  const ShardIndex index = describing_foreign(
      *file, ReadAs::kShardIndex, [](ErrorCode code) { return code == ErrorCode::kStShardIndex; },
      [&] { return ShardIndex(read_text(*file, 0, file->size())); });
  state->index_version = file->version();
  state->index_metadata = index.metadata();
  const std::string directory = file_name.substr(0, file_name.size() - last_part.size());
  state->add_shards(index, [&](const std::string& name) {
    return is_url(file_name) ? sibling_url(file_name, name) : directory + name;
  });
  // A writer replaces the index before it replaces a shard that the index names. If the index is still the same, the
  // shards that were opened are those of one model.
  if (file->version() && open_file(file_name, OpenMode::kRead, io_path)->version() != file->version()) {
    throw Error(ErrorCode::kFileChanged,
                "the index was replaced or changed while its shards were opened: open the model again");
  }
  return SafetensorsReader(std::move(state));
}

std::size_t SafetensorsReader::size() const { return state_->first_tensor.empty() ? 0 : state_->first_tensor.back(); }

SafetensorsTensor SafetensorsReader::operator[](std::size_t tensor) const {
  const std::size_t shard = state_->shard_of(tensor);
  const Listing& listing = state_->listings[shard];
  const Listing::Tensor& record = listing[tensor - state_->first_tensor[shard]];
  const safetensors::DtypeRow& dtype = safetensors::dtypes()[record.dtype];
  return {listing.name(record), dtype.name, dtype.torch_name, listing.shape(record), record.begin, record.end, shard};
}

std::optional<std::size_t> SafetensorsReader::find(std::string_view name) const {
  for (std::size_t shard = 0; shard < state_->shards.size(); ++shard) {
    if (const auto found = state_->listings[shard].find(name)) return state_->first_tensor[shard] + *found;
  }
  return std::nullopt;
}

bool SafetensorsReader::sharded() const { return state_->sharded; }

std::span<const SafetensorsShard> SafetensorsReader::shards() const { return state_->shards; }

std::map<std::string, std::string> SafetensorsReader::metadata() const {
  std::map<std::string, std::string> all;
  for (const SafetensorsShard& shard : state_->shards) all.insert(shard.metadata.begin(), shard.metadata.end());
  return all;
}

const std::map<std::string, std::string>& SafetensorsReader::index_metadata() const { return state_->index_metadata; }

std::vector<FileVersion> SafetensorsReader::files() const {
  std::vector<FileVersion> versions;
  if (state_->sharded) {
    if (!state_->index_version) return versions;
    versions.push_back(*state_->index_version);
  }
  for (const SafetensorsShard& shard : state_->shards) {
    if (shard.version) versions.push_back(*shard.version);
  }
  return versions;
}

std::uint64_t SafetensorsReader::data_bytes() const {
  std::uint64_t bytes = 0;
  for (const Listing& listing : state_->listings) bytes += listing.data_bytes();
  return bytes;
}

std::uint64_t SafetensorsReader::file_bytes() const {
  std::uint64_t bytes = 0;
  for (const SafetensorsShard& shard : state_->shards) bytes += shard.file_bytes;
  return bytes;
}

TensorTable SafetensorsReader::tensor_table() const {
  TensorTable table;
  for (std::size_t i = 0; i < size(); ++i) {
    const SafetensorsTensor tensor = (*this)[i];
    if (tensor.torch_dtype.empty()) {
      throw Error(ErrorCode::kUsage,
                  fmt::format("'{}' is of dtype {}, which is read but not converted: PyTorch has no such type",
                              tensor.name, tensor.dtype));
    }
    table.add({std::string(tensor.name)}, Kind::kStateDict, dtype_from_name(tensor.torch_dtype), tensor.shape);
  }
  return table;
}

std::unique_ptr<TensorStream> SafetensorsReader::open(std::size_t tensor) const {
  const std::size_t shard = state_->shard_of(tensor);
  const Listing::Tensor& record = state_->record(tensor);
  return std::make_unique<ShardStream>(state_->files, shard, state_->error_name(shard),
                                       state_->shards[shard].data_begin + record.begin, record.end - record.begin);
}

void SafetensorsReader::read_shard(std::size_t shard, std::uint64_t offset, MutableBuffer out) const {
  state_->read(shard, offset, out);
}

void SafetensorsReader::read(std::size_t tensor, MutableBuffer out) const {
  const SafetensorsTensor info = (*this)[tensor];
  if (out.size != info.data_length()) {
    throw Error(ErrorCode::kUsage,
                fmt::format("'{}' has {} bytes, but the buffer has {}", info.name, info.data_length(), out.size));
  }
  state_->read(info.shard, state_->shards[info.shard].data_begin + info.begin, out);
}

void SafetensorsReader::read(std::string_view name, MutableBuffer out) const {
  const auto found = find(name);
  if (!found) throw Error(ErrorCode::kNoSuchTensor, fmt::format("there is no tensor '{}'", name));
  read(*found, out);
}

std::vector<DeviceMemory> SafetensorsReader::load_into_device(const DeviceReadOptions& options) const {
  std::vector<DeviceMemory> loaded;
  for (std::size_t shard = 0; shard < shards().size(); ++shard) {
    const SafetensorsShard& info = shards()[shard];
    DeviceMemory memory(static_cast<std::size_t>(info.file_bytes - info.data_begin), options.device);
    const RangeTarget all{info.data_begin, memory.buffer()};
    state_->read_into_device(shard, {&all, 1}, options);
    loaded.push_back(std::move(memory));
  }
  return loaded;
}

void SafetensorsReader::read_into_device(std::size_t tensor, MutableBuffer out,
                                         const DeviceReadOptions& options) const {
  const ReadTarget target{tensor, out};
  read_into_device(std::span(&target, 1), options);
}

void SafetensorsReader::read_into_device(std::span<const ReadTarget> targets, const DeviceReadOptions& options) const {
  // The ranges of each shard and GPU.
  std::map<std::pair<std::size_t, int>, std::vector<RangeTarget>> together;
  for (const auto& [tensor, out] : targets) {
    const SafetensorsTensor info = (*this)[tensor];
    if (out.kind != MemoryKind::kDevice || out.size != info.data_length()) {
      throw Error(ErrorCode::kUsage, fmt::format("'{}' needs {} bytes of GPU memory", info.name, info.data_length()));
    }
    if (out.size == 0) continue;
    together[{info.shard, device_of(out)}].push_back({state_->shards[info.shard].data_begin + info.begin, out});
  }
  for (auto& [place, ranges] : together) {
    std::ranges::sort(ranges, {}, &RangeTarget::offset);
    state_->read_into_device(place.first, ranges, options);
  }
}

void SafetensorsReader::scan(const std::function<void(std::size_t, const Sha256Digest&)>& done) const {
  const SafetensorsReadOptions& options = state_->options;
  const auto run = [&](std::size_t first, std::size_t end, File* file, std::size_t piece_bytes) {
    ScanPass pass(*this, first, end, file, options.progress, done);
    run_pass(pass, options.threads, piece_bytes);
  };
  if (size() == 0) return;
  // A queue belongs to one file, and a transfer to or from pages needs room around it, so other paths read at once.
  bool has_queues = true;
  state_->with_file(0, [&](File& file) { has_queues = file.is_asynchronous() && file.transfer_align_bytes() == 1; });
  if (!has_queues) return run(0, size(), nullptr, options.piece_bytes);
  for (std::size_t shard = 0; shard < shards().size(); ++shard) {
    state_->with_file(shard, [&](File& file) {
      run(state_->first_tensor[shard], state_->first_tensor[shard + 1], &file,
          piece_bytes_for(file, options.piece_bytes));
    });
  }
}

void SafetensorsReader::verify() const { scan({}); }

}  // namespace tzmark
