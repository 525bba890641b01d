// Writing safetensors files: lays out every shard and serializes its header, then streams the data.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <filesystem>
#include <numeric>
#include <optional>
#include <set>

#include "bytes/cursor.h"
#include "bytes/utf8.h"
#include "codec/tensor_digest.h"
#include "os/atomic_file.h"
#include "os/name_changes.h"
#include "os/names_lock.h"
#include "os/replaced_source.h"
#include "safetensors/dtypes.h"
#include "safetensors/header.h"
#include "safetensors/old_set.h"
#include "safetensors/pass.h"
#include "safetensors/shard_index.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

using safetensors::kShardIndexSuffix;
using safetensors::kSuffix;

// All shards are renamed together when they are complete; until then each has a temporary name.
constexpr std::size_t kShardsMax = 512;

// Estimates of the size of a header entry without its name, and of a dimension.
constexpr std::size_t kEntryBytes = 100;
constexpr std::size_t kDimensionBytes = 21;

// One file: its header, and which tensors lie where in its data.
struct ShardPlan {
  std::vector<std::uint32_t> tensors;       // in the order of their data
  std::vector<std::uint64_t> data_offsets;  // from the start of the file
  std::string header;                       // length and header
  std::uint64_t file_bytes = 0;
};

// Everything that is known before the first byte is written. Throws if the format cannot hold it.
class Plan {
 public:
  Plan(const TensorTable& tensors, const SafetensorsWriteOptions& options, std::uint64_t shard_bytes_max)
      : tensors_(tensors), options_(options) {
    check_metadata();
    names_.reserve(tensors.size());
    dtypes_.reserve(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) check_tensor(i);
    check_duplicates();
    deal_out(shard_bytes_max);
    for (ShardPlan& shard : shards_) lay_out(shard);
  }

  std::span<const ShardPlan> shards() const { return shards_; }

  // Returns the content of the index for shards of these names.
  std::string serialize_index(std::span<const std::string> shard_names) const {
    std::map<std::string_view, std::string_view> files;
    for (std::size_t shard = 0; shard < shards_.size(); ++shard) {
      for (const std::uint32_t tensor : shards_[shard].tensors) files.emplace(names_[tensor], shard_names[shard]);
    }
    std::string text = safetensors::serialize_shard_index(data_bytes_, files, options_.index_metadata);
    if (text.size() > safetensors::kShardIndexBytesMax) {
      throw Error(ErrorCode::kStUnwritable, fmt::format("an index of {} bytes exceeds the maximum of {}", text.size(),
                                                        safetensors::kShardIndexBytesMax));
    }
    return text;
  }

 private:
  void check_metadata() const {
    for (const auto* metadata : {&options_.metadata, &options_.index_metadata}) {
      for (const auto& [key, value] : *metadata) {
        if (find_invalid_utf8(key) || find_invalid_utf8(value)) {
          throw Error(ErrorCode::kStUnwritable, fmt::format("the metadata '{}' is not valid UTF-8", key));
        }
      }
    }
  }

  [[noreturn]] static void refuse(const TensorInfo& tensor, const std::string& reason) {
    throw Error(ErrorCode::kStUnwritable, fmt::format("'{}' {}", display_path(tensor.path()), reason));
  }

  void check_tensor(std::size_t i) {
    const TensorInfo tensor = tensors_[i];
    Path path = tensor.path();
    if (path.size() != 1 || !std::holds_alternative<std::string>(path.front())) {
      refuse(tensor, "has a structured name, but safetensors has only plain names");
    }
    // Usually the stored name, but a path of one string may be stored as a structured name.
    const auto& name = std::get<std::string>(path.front());
    names_.push_back(name == tensor.name ? tensor.name : parsed_names_.emplace_back(name));
    if (name == safetensors::kMetadataKey) refuse(tensor, "has the name that safetensors reserves for metadata");
    if (tensor.meta()) refuse(tensor, "is a meta tensor, but safetensors stores the data of all tensors");
    if (tensor.dtype.big_endian) refuse(tensor, "is big-endian, but safetensors is little-endian");
    const auto dtype = safetensors::find_torch_dtype(tensor.dtype.name);
    if (!dtype) {
      const std::string_view dtype_name = tensor.dtype.foreign() ? tensor.dtype.wire : tensor.dtype.name;
      refuse(tensor, fmt::format("is of dtype {}, which safetensors lacks", dtype_name));
    }
    const auto bits = safetensors::bits_of(tensor.shape, *dtype);
    if (!bits) refuse(tensor, "has a shape whose size readers compute as 2^64 bits or more");
    if (*bits / 8 != tensor.data_length) {
      throw Error(ErrorCode::kUsage, fmt::format("'{}' has {} bytes of data, but its shape and dtype give {}",
                                                 display_path(path), tensor.data_length, *bits / 8));
    }
    dtypes_.push_back(*dtype);
    if (__builtin_add_overflow(data_bytes_, tensor.data_length, &data_bytes_) || data_bytes_ >> 62 != 0) {
      throw Error(ErrorCode::kUsage, "the tensors have 2^62 bytes or more");
    }
  }

  void check_duplicates() const {
    std::vector<std::uint32_t> order(names_.size());
    std::iota(order.begin(), order.end(), 0U);
    const auto name_of = [&](std::uint32_t i) { return names_[i]; };
    std::ranges::sort(order, {}, name_of);
    const auto twice = std::ranges::adjacent_find(order, {}, name_of);
    if (twice != order.end()) refuse(tensors_[*twice], "is the name of more than one tensor");
  }

  // Assigns tensors to shards in the order of the table, so that related tensors stay together.
  void deal_out(std::uint64_t shard_bytes_max) {
    shards_.emplace_back();
    std::uint64_t bytes = 0;
    for (std::uint32_t i = 0; i < names_.size(); ++i) {
      const std::uint64_t length = tensors_[i].data_length;
      if (shard_bytes_max > 0 && !shards_.back().tensors.empty() &&
          (bytes > shard_bytes_max || length > shard_bytes_max - bytes)) {
        shards_.emplace_back();
        bytes = 0;
      }
      shards_.back().tensors.push_back(i);
      bytes += length;
    }
    if (shards_.size() > kShardsMax) {
      throw Error(ErrorCode::kUsage,
                  fmt::format("{} shards exceed the maximum of {}: make them larger", shards_.size(), kShardsMax));
    }
  }

  // Sorts by element size in descending order, which aligns all elements, then by name.
  void lay_out(ShardPlan& shard) const {
    std::ranges::sort(shard.tensors, {}, [&](std::uint32_t i) { return std::pair(-int{dtypes_[i]}, names_[i]); });
    // Headers may be long, and growing one would take twice the memory.
    std::size_t text_bytes = 0;
    for (const std::uint32_t i : shard.tensors) {
      text_bytes += kEntryBytes + names_[i].size() + kDimensionBytes * tensors_[i].shape.size();
    }
    safetensors::HeaderText header(options_.metadata, text_bytes);
    shard.data_offsets.reserve(shard.tensors.size());
    std::uint64_t position = 0;
    for (const std::uint32_t i : shard.tensors) {
      const TensorInfo tensor = tensors_[i];
      header.add({names_[i], dtypes_[i], tensor.shape, position, position + tensor.data_length});
      shard.data_offsets.push_back(position);
      position += tensor.data_length;
    }
    shard.header = std::move(header).finish();
    for (std::uint64_t& offset : shard.data_offsets) offset += shard.header.size();
    shard.file_bytes = shard.header.size() + position;
  }

  const TensorTable& tensors_;
  const SafetensorsWriteOptions& options_;
  std::vector<std::string_view> names_;
  std::deque<std::string> parsed_names_;  // a deque never moves its strings
  std::vector<std::uint8_t> dtypes_;
  std::uint64_t data_bytes_ = 0;
  std::vector<ShardPlan> shards_;
};

// One tensor being written; checks the hashes that the source knows.
class WrittenTensor final : public safetensors::PassedTensor {
 public:
  WrittenTensor(std::unique_ptr<TensorStream> stream, std::uint64_t length, bool verify)
      : stream_(std::move(stream)), length_(length) {
    if (verify) expected_ = stream_->expected();
    if (expected_ != nullptr) {
      digest_.begin(expected_->hashed_header(), expected_->wants_crc32(), expected_->wants_sha256());
    }
  }

  std::uint32_t read(std::uint64_t offset, std::span<std::byte> data) override {
    stream_->read(offset, data);
    return look(data);
  }
  std::span<const std::byte> in_memory() const override {
    const auto data = stream_->in_memory();
    return data.size() == length_ ? data : std::span<const std::byte>();
  }
  std::uint32_t look(std::span<const std::byte> data) const override {
    return expected_ != nullptr && expected_->wants_crc32() ? crc32(0, data) : 0;
  }
  void hash(std::span<const std::byte> data, std::uint32_t crc32_of_data, std::vector<Sha256Part>& later) override {
    if (expected_ != nullptr) digest_.add(data, crc32_of_data, later);
  }
  void finish() override {
    if (expected_ != nullptr) expected_->check(digest_.crc32(), digest_.finish_sha256());
  }

 private:
  const std::unique_ptr<TensorStream> stream_;
  const std::uint64_t length_;
  const ExpectedHashes* expected_ = nullptr;
  TensorDigest digest_;
};

class WritePass final : public safetensors::Pass {
 public:
  WritePass(File& file, const ShardPlan& shard, const TensorTable& tensors, const TensorSource& source,
            const SafetensorsWriteOptions& options)
      : file_(file), shard_(shard), tensors_(tensors), source_(source), options_(options) {}

  std::size_t count() const override { return shard_.tensors.size(); }
  std::uint64_t length(std::size_t i) const override { return tensors_[shard_.tensors[i]].data_length; }
  bool hashes() const override { return options_.verify_source; }
  std::unique_ptr<safetensors::PassedTensor> open(std::size_t i) override {
    return std::make_unique<WrittenTensor>(source_.open(shard_.tensors[i]), length(i), options_.verify_source);
  }
  void put(std::size_t i, std::uint64_t offset, std::span<const std::byte> data) override {
    file_.write_at(shard_.data_offsets[i] + offset, data);
    if (options_.progress) options_.progress(data.size());
  }

 private:
  File& file_;
  const ShardPlan& shard_;
  const TensorTable& tensors_;
  const TensorSource& source_;
  const SafetensorsWriteOptions& options_;
};

void write_shard(File& file, const ShardPlan& shard, const TensorTable& tensors, const TensorSource& source,
                 const SafetensorsWriteOptions& options) {
  file.write_at(0, as_bytes(shard.header));
  WritePass pass(file, shard, tensors, source, options);
  run_pass(pass, options.threads, options.piece_bytes);
}

SafetensorsWriteResult write_one(const std::string& file_name, const TensorTable& tensors, const TensorSource& source,
                                 const SafetensorsWriteOptions& options) {
  if (safetensors::is_index_name(file_name)) {
    throw Error(ErrorCode::kUsage, "an index is part of the sharded form, which needs a shard size");
  }
  const Plan plan(tensors, options, 0);
  const ShardPlan& shard = plan.shards().front();
  const auto directory = directory_for(file_name, options.durability);
  const std::array outputs = {name_in_directory(file_name)};
  const ReplacedSource replaced(directory, outputs, source.files());
  // The same model may have been in shards until now.
  const std::string base(std::string_view(outputs.front()).substr(0, outputs.front().rfind(kSuffix)));
  AtomicFileIn output(directory, file_name, options.io_path, options.existing, {base + std::string(kShardIndexSuffix)});
  write_shard(output.file(), shard, tensors, source, options);
  const bool is_durable = replaced.commit(output, options.names_wait);
  return {{file_name}, shard.file_bytes, is_durable};
}

// The names of a set of shards and its index, all in one directory.
struct SetNames {
  std::string directory;  // as a prefix of names
  std::string base_name;  // of the model
  std::vector<std::string> shards;
  std::string index;

  std::vector<std::string> all() const {
    std::vector<std::string> names = shards;
    names.push_back(index);
    return names;
  }
};

SetNames set_names(const std::string& file_name, std::size_t shard_count) {
  const std::string_view suffix = file_name.ends_with(kShardIndexSuffix) ? kShardIndexSuffix : kSuffix;
  const std::string base = file_name.ends_with(suffix) ? file_name.substr(0, file_name.size() - suffix.size()) : "";
  SetNames names;
  names.base_name = std::filesystem::path(base).filename().string();
  if (names.base_name.empty()) {
    throw Error(ErrorCode::kUsage, fmt::format("the sharded form is written as NAME{}", kSuffix));
  }
  names.directory = base.substr(0, base.size() - names.base_name.size());
  for (std::size_t i = 1; i <= shard_count; ++i) {
    names.shards.push_back(safetensors::shard_file_name(names.base_name, i, shard_count));
  }
  names.index = names.base_name + std::string(kShardIndexSuffix);
  return names;
}

// A sharded model being written. Everything that can fail without renaming files is done in write.
class ShardedOutput {
 public:
  ShardedOutput(const SetNames& names, const Plan& plan, const TensorSource& source,
                const SafetensorsWriteOptions& options)
      : names_(names),
        plan_(plan),
        options_(options),
        directory_(directory_for(names.directory + names.index, options.durability)),
        index_(make_file(names.index)),
        replaced_(directory_, names.all(), source.files()) {
    for (const std::string& name : names_.shards) {
      require_short_name(name);
      refuse_existing(name);
    }
    old_files_ = safetensors::files_of_index(*directory_, names_.index);
    if (old_set_is_in_the_way() && !can_link(*index_)) {
      throw Error(ErrorCode::kUnavailable,
                  "the old shards have the names of the new ones, and the file system has no hard links to replace "
                  "them safely: "
                  "remove the old shards first, or write to another name");
    }
  }

  void write(const TensorTable& tensors, const TensorSource& source) {
    for (std::size_t i = 0; i < names_.shards.size(); ++i) {
      shards_.push_back(make_file(names_.shards[i]));
      write_shard(shards_[i]->file(), plan_.shards()[i], tensors, source, options_);
      // Syncing is slow, so it precedes all renames. Finishing also limits the number of open files.
      shards_[i]->finish();
    }
    write_index(*index_, names_.shards);
  }

  // The old shards that commit has not removed.
  std::span<const std::string> kept() const { return kept_; }

  // Renames all files. At any time the index names complete shards of a single model. Returns whether the names are
  // durable.
  bool commit() {
    std::vector<AtomicFile*> finished;
    for (const auto& shard : shards_) finished.push_back(shard.get());
    finished.push_back(index_.get());
    const auto until_all_have_their_names = NamesLock::take_or_keep(directory_, options_.names_wait, finished);
    const Descriptor until_it_is_replaced = replaced_.lock_unchanged(options_.names_wait, finished);
    // Another process may have replaced the model since the constructor read its index.
    old_files_ = safetensors::files_of_index(*directory_, names_.index);
    const bool may_remove = safetensors::may_remove_files_of_index(*directory_, names_.index);
    return change_names(directory_, [&](NameChanges& changes) {
      // The old index must never name new shards: a temporary index names them while they are renamed.
      if (old_set_is_in_the_way()) place_under_other_names(changes);
      for (const auto& shard : shards_) changes.place(*shard);
      changes.sync();
      for (std::string& name : old_shards()) {
        may_remove ? changes.remove_at_end(std::move(name)) : kept_.push_back(std::move(name));
      }
      changes.commit(*index_);
    });
  }

 private:
  std::unique_ptr<AtomicFileIn> make_file(const std::string& name) const {
    return with_context(name, [&] {
      return std::make_unique<AtomicFileIn>(directory_, names_.directory + name, options_.io_path, options_.existing,
                                            std::vector{names_.index, names_.base_name + std::string(kSuffix)});
    });
  }

  void refuse_existing(const std::string& name) const {
    if (options_.existing == AtomicFile::Existing::kRefuse && directory_->has(name)) {
      throw Error(ErrorCode::kOpenFailed, name + ": the file exists already");
    }
  }

  void write_index(AtomicFile& file, std::span<const std::string> shard_names) const {
    file.file().write_at(0, as_bytes(plan_.serialize_index(shard_names)));
    file.finish();
  }

  // Whether an old index names a file that the new model replaces. An unreadable index may name any file.
  bool old_set_is_in_the_way() const {
    return !old_files_
               ? std::ranges::any_of(names_.shards, [&](const auto& name) { return directory_->has(name); })
               : std::ranges::any_of(names_.shards, [&](const auto& name) { return old_files_->contains(name); });
  }

  void place_under_other_names(NameChanges& changes) const {
    const std::string other_base = safetensors::temporary_base_name(names_.base_name);
    std::vector<std::string> other_names;
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      other_names.push_back(safetensors::shard_file_name(other_base, i + 1, shards_.size()));
      changes.link(*shards_[i], other_names.back());
    }
    changes.sync();
    const auto index = make_file(names_.index);
    write_index(*index, other_names);
    changes.place(*index);
    changes.sync();
  }

  // Returns the old files whose names are those of shards of this model; an index may name any file of its directory.
  std::vector<std::string> old_shards() const {
    std::vector<std::string> shards;
    if (!old_files_) return shards;
    for (const std::string& name : *old_files_) {
      if (safetensors::is_shard_file_name(name, names_.base_name) && directory_->has(name) &&
          std::ranges::find(names_.shards, name) == names_.shards.end()) {
        shards.push_back(name);
      }
    }
    return shards;
  }

  const SetNames& names_;
  const Plan& plan_;
  const SafetensorsWriteOptions& options_;
  const std::shared_ptr<const Directory> directory_;
  const std::unique_ptr<AtomicFileIn> index_;
  const ReplacedSource replaced_;
  std::vector<std::string> kept_;
  std::vector<std::unique_ptr<AtomicFileIn>> shards_;
  // The files that the old index names; empty if there is no index, none if it cannot be read.
  std::optional<std::set<std::string, std::less<>>> old_files_;
};

SafetensorsWriteResult write_sharded(const std::string& file_name, const TensorTable& tensors,
                                     const TensorSource& source, const SafetensorsWriteOptions& options) {
  const Plan plan(tensors, options, options.shard_bytes_max);
  const SetNames names = set_names(file_name, plan.shards().size());
  SafetensorsWriteResult result{};
  for (std::size_t i = 0; i < plan.shards().size(); ++i) {
    result.file_names.push_back(names.directory + names.shards[i]);
    result.file_bytes += plan.shards()[i].file_bytes;
  }
  result.file_names.push_back(names.directory + names.index);
  result.file_bytes += plan.serialize_index(names.shards).size();
  ShardedOutput output(names, plan, source, options);
  output.write(tensors, source);
  result.names_durable = output.commit();
  for (const std::string& name : output.kept()) result.old_file_names.push_back(names.directory + name);
  return result;
}

}  // namespace

SafetensorsWriteResult write_safetensors(const std::string& file_name, const TensorTable& tensors,
                                         const TensorSource& source, const SafetensorsWriteOptions& options) {
  return options.shard_bytes_max == 0 ? write_one(file_name, tensors, source, options)
                                      : write_sharded(file_name, tensors, source, options);
}

std::string why_files_are_kept(std::span<const std::string> old_file_names) {
  return fmt::format(
      "{} shards of the old model, such as {}, are not removed, because another user could have written the "
      "index that named them: remove them if they are yours",
      old_file_names.size(), old_file_names.front());
}

std::uint64_t write_safetensors(File& file, const TensorTable& tensors, const TensorSource& source,
                                const SafetensorsWriteOptions& options) {
  const Plan plan(tensors, options, 0);
  const ShardPlan& shard = plan.shards().front();
  write_shard(file, shard, tensors, source, options);
  return shard.file_bytes;
}

}  // namespace tzmark
