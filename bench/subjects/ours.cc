// The codec as a subject; see ours.h.
#include "subjects/ours.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <variant>
#include <vector>

#include "harness/free_memory.h"
#include "harness/page_cache.h"
#include "tzmark/device_compute.h"
#include "tzmark/digest.h"
#include "tzmark/error.h"
#include "tzmark/profile.h"
#include "tzmark/threads.h"

namespace tzmark::bench {
namespace {

// The limits of the resident share for a cold and for a warm file.
constexpr double kColdShareMax = 0.02;
constexpr double kWarmShareMin = 0.98;
constexpr int kWarmAttempts = 4;

std::string verification_name(const FileFormat& stored) {
  if (stored.crc32 && stored.sha256) return "both";
  return stored.crc32 ? "crc32" : stored.sha256 ? "sha256" : "none";
}

std::string verification_name(Verification verification, const FileFormat& stored) {
  switch (verification) {
    case Verification::kNone:
      return "none";
    case Verification::kCrc32:
      return "crc32";
    case Verification::kAll:
      break;
  }
  return stored.encrypted ? "sha256" : verification_name(stored);
}

// The common part of the codec subjects.
class CodecSubject : public Subject {
 protected:
  CodecSubject(Workplace& place, SharedContent content, const FileFormat& stored, const IoSettings& moving)
      : place_(place), content_(std::move(content)), stored_(stored), moving_(moving) {
    RunDescription& d = description_;
    d.subject = "codec";
    d.io_requested = moving.io;
    d.layout = std::string(layout_name(stored.layout));
    d.workload = content_->workload().name;
    d.workload_label = content_->workload().label();
    d.threads = thread_count(moving.threads);
    d.encrypted = stored.encrypted;
    d.bytes = content_->data_bytes();
    d.tensors = content_->table().size();
    d.largest_tensor_bytes = content_->workload().largest_tensor_bytes();
    d.verified_first = true;
  }

  void describe(const File& file) {
    description_.io_actual = file.io_path();
    description_.queue_depth = queue_depth(file, moving_);
    description_.is_default_block = moving_.block_bytes == 0;
    description_.block_bytes = block_bytes(file);
    description_.device_beside = description_.operation == FileOperation::kWrite && moving_.syncs &&
                                 path_traits(file.io_path()).starts_writeback &&
                                 *description_.block_bytes >= kWritebackBytesMin;
  }

  // The size of the transfers of a large tensor.
  virtual std::uint64_t block_bytes(const File& file) const { return bench::block_bytes(file, moving_); }

  // As a profile does.
  template <typename Options>
  void set_block(Options& options) const {
    if (moving_.block_bytes != 0) apply(ProfileSettings{.block_bytes = moving_.block_bytes}, options);
  }

  ReadOptions options() const {
    ReadOptions options = read_options(stored_.encrypted);
    options.io_path = moving_.io;
    options.threads = moving_.threads;
    set_block(options);
    options.queue_depth = moving_.queue_depth;
    return options;
  }

  Workplace& place_;
  const SharedContent content_;
  const FileFormat stored_;
  const IoSettings moving_;
};

class CodecRead final : public CodecSubject {
 public:
  CodecRead(Workplace& place, SharedContent content, const FileFormat& stored, const IoSettings& moving,
            const ReadSettings& reading)
      : CodecSubject(place, std::move(content), stored, moving), reading_(reading) {
    description_.operation = FileOperation::kRead;
    description_.verification = verification_name(reading.verification, stored);
    description_.cache = reading.cache;
    description_.target = reading.target;
    if (reading.target == Target::kHugePages) description_.pages = Pages::kHuge;
    if (reading.target == Target::kSmallPages) description_.pages = Pages::kSmall;
    description_.bytes *= reading.copies;
    description_.tensors *= reading.copies;
    if (reading.compute != DeviceCompute::kAuto) {
      description_.detail = reading.compute == DeviceCompute::kHost ? "compute=host" : "compute=device";
    }
    if (reading.copies > 1)
      description_.notes.push_back(fmt::format("{} copies of the file per sample", reading.copies));
  }

  void prepare() override {
    file_names_ = {place_.file(content_, stored_, reading_.cache)};
    make_cache_state(file_names_.front(), reading_.cache);
    describe(*open_file(file_names_.front(), OpenMode::kRead, moving_.io));
    while (file_names_.size() < reading_.copies) {
      file_names_.push_back(place_.new_name(".copy"));
      std::filesystem::copy_file(file_names_.front(), file_names_.back());
      if (reading_.cache == Cache::kWarm) static_cast<void>(warm_anew(file_names_.back()));
    }
  }

  void verify() override {
    prepare();
    const Reader reader = Reader::open(file_names_.front(), options());
    if (reading_.target == Target::kSink) return reader.verify();
    if (reading_.target == Target::kDevice) return verify_device(reader);
    const LoadedTensors loaded = reader.load(Verification::kAll);
    for (std::size_t i = 0; i < loaded.size(); ++i) {
      const auto found = reader.find(content_->workload().tensors[i].name);
      if (!found || !std::ranges::equal(loaded[*found], (*content_)[i])) {
        throw Error(ErrorCode::kFileChanged, "the bytes read differ from the bytes written");
      }
    }
  }

  Sample run() override {
    Sample sample;
    std::vector<double> shares;
    empty_heap();
    for (const std::string& name : file_names_)
      shares.push_back(make_cache_state(name, reading_.cache, new_memory_bytes() / file_names_.size()));
    // The share of the file that is furthest from the requested state.
    sample.resident_share =
        reading_.cache == Cache::kWarm ? *std::ranges::min_element(shares) : *std::ranges::max_element(shares);
    std::vector<Loaded> loaded(file_names_.size());  // not freed before the clock stops
    const RunTimer watch(place_.directory());
    for (std::size_t i = 0; i < loaded.size(); ++i) loaded[i] = read(file_names_[i]);
    watch.stop(sample);
    watch.stop_device(sample);
    if (const auto* const tensors = std::get_if<LoadedTensors>(&loaded.front())) see_pages(huge_share_of(*tensors));
    return sample;
  }

 private:
  static std::optional<double> huge_share_of(const LoadedTensors& tensors) {
    const std::byte* begin = nullptr;
    const std::byte* end = nullptr;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const std::span<const std::byte> bytes = tensors[i];
      if (bytes.empty()) continue;
      begin = begin == nullptr ? bytes.data() : std::min(begin, bytes.data());
      end = std::max(end, bytes.data() + bytes.size());
    }
    return huge_share(std::span(begin, end));
  }

  // A read to a sink takes memory for its pieces only.
  std::uint64_t new_memory_bytes() const {
    constexpr std::uint64_t kPiecesBytes = 64 << 20;
    return reading_.target == Target::kSink ? std::min(description_.bytes, kPiecesBytes) : description_.bytes;
  }

  std::uint64_t block_bytes(const File& file) const override {
    const bool suits_gpu = reading_.target == Target::kDevice && reading_.verification != Verification::kAll &&
                           moving_.block_bytes == 0 && file.transfer_bytes_default() == 0;
    return suits_gpu ? device_options().piece_bytes : CodecSubject::block_bytes(file);
  }

  using Loaded = std::variant<std::monostate, LoadedTensors, DeviceTensors>;

  // Checks a load with all hashes, and then one as it will be timed.
  void verify_device(const Reader& reader) {
    const auto require_same = [&](const DeviceTensors& loaded) {
      std::vector<ConstBuffer> on_device;
      for (std::size_t i = 0; i < loaded.size(); ++i) {
        const auto found = reader.find(content_->workload().tensors[i].name);
        if (found) on_device.emplace_back(loaded[*found]);
      }
      if (on_device.size() != loaded.size() || !are_as_written(on_device)) {
        throw Error(ErrorCode::kFileChanged, "the bytes on the GPU differ from the bytes written");
      }
    };
    require_same(reader.load_into_device({.verify = Verification::kAll, .compute = reading_.compute}));
    std::optional<DeviceTensors> loaded;
    const auto load = [&] { loaded = reader.load_into_device(device_options()); };
    if (path_traits(reader.io_path()).moves_device_memory) {
      attest(description_, load);
    } else {
      load();
    }
    require_same(*loaded);
  }

  // By CRC32 where the GPU computes it: the bytes of a large model take seconds to come back.
  bool are_as_written(const std::vector<ConstBuffer>& on_device) const {
    std::vector<std::uint32_t> crcs;
    if (why_no_device_compute(device_options().device).empty()) crcs = crc32_on_device(on_device);
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i < on_device.size(); ++i) {
      const std::span<const std::byte> expected = (*content_)[i];
      if (on_device[i].size != expected.size()) return false;
      if (!crcs.empty()) {
        if (crcs[i] != crc32(0, expected)) return false;
        continue;
      }
      bytes.resize(expected.size());
      copy_to_host(on_device[i], bytes);
      if (!std::ranges::equal(bytes, expected)) return false;
    }
    return true;
  }

  DeviceReadOptions device_options() const {
    DeviceReadOptions options{.verify = reading_.verification, .compute = reading_.compute};
    set_block(options);
    return options;
  }

  Loaded read(const std::string& file_name) const {
    const Reader reader = Reader::open(file_name, options());
    if (reading_.target == Target::kDevice) return reader.load_into_device(device_options());
    if (reading_.target != Target::kSink) {
      const bool huge = reading_.target == Target::kHugePages;
      return reader.load(reading_.verification, huge ? HostMemory::Pages::kHuge : HostMemory::Pages::kSmall);
    }
    reader.scan({.verify = reading_.verification});
    return std::monostate();
  }

  const ReadSettings reading_;
  std::vector<std::string> file_names_;
};

class CodecOpen final : public CodecSubject {
 public:
  CodecOpen(Workplace& place, SharedContent content, const FileFormat& stored, const IoSettings& moving)
      : CodecSubject(place, std::move(content), stored, moving) {
    description_.operation = FileOperation::kOpen;
    description_.cache = Cache::kWarm;
  }

  void verify() override {
    file_name_ = place_.file(content_, stored_, Cache::kWarm);
    describe(*open_file(file_name_, OpenMode::kRead, moving_.io));
    const Reader reader = Reader::open(file_name_, options());
    if (reader.tensors().size() != content_->table().size()) {
      throw Error(ErrorCode::kFileChanged, "the opened file has a wrong number of tensors");
    }
  }

  Sample run() override {
    Sample sample;
    sample.resident_share = make_cache_state(file_name_, Cache::kWarm);
    const RunTimer watch(place_.directory());
    const Reader reader = Reader::open(file_name_, options());
    watch.stop(sample);
    return sample;
  }

 private:
  std::string file_name_;
};

class CodecWrite final : public CodecSubject {
 public:
  CodecWrite(Workplace& place, SharedContent content, const FileFormat& stored, const IoSettings& moving,
             bool from_device)
      : CodecSubject(place, std::move(content), stored, moving),
        from_device_(from_device),
        file_name_(place.new_name(".written")) {
    description_.operation = FileOperation::kWrite;
    if (from_device) {
      description_.target = Target::kDevice;
    } else {
      description_.pages = Pages::kHuge;
    }
    description_.verification = verification_name(stored);
    const std::size_t message_bytes = WriteOptions().piece_bytes;
    if (stored.encrypted && moving.block_bytes != 0 && moving.block_bytes < message_bytes) {
      description_.notes.push_back("encrypted data is written in whole messages of 2 MiB");
    }
  }

  void prepare() override {
    see_pages(huge_share(content_->bytes()));
    if (from_device_) {
      memory_.emplace(content_->table());
      std::vector<ConstBuffer> tensors;
      for (std::size_t i = 0; i < memory_->size(); ++i) tensors.emplace_back((*memory_)[i]);
      source_ = std::make_unique<DeviceSource>(std::move(tensors));
    } else {
      source_ = std::make_unique<MemorySource>(content_->source());
    }
  }

  void verify() override {
    prepare();
    if (from_device_ && path_traits(moving_.io).moves_device_memory) {
      attest(description_, [&] { static_cast<void>(run()); });
    } else {
      static_cast<void>(run());
    }
    require_same_content(file_name_, *content_, stored_.encrypted);
    std::filesystem::remove(file_name_);
  }

  Sample run() override {
    content_->make_new_version();
    if (from_device_) copy_to_device();
    WriteOptions options = write_options(stored_);
    options.threads = moving_.threads;
    set_block(options);
    options.queue_depth = moving_.queue_depth;
    return timed_write(place_, file_name_, description_.bytes, moving_, [&](File& file) {
      describe(file);
      write_tensors(file, content_->table(), *source_, options);
    });
  }

  void remove_output() override { std::filesystem::remove(file_name_); }

 private:
  void copy_to_device() {
    for (std::size_t i = 0; i < memory_->size(); ++i) copy_from_host((*content_)[i], (*memory_)[i]);
  }

  // Whole messages, where there are some and no block is given.
  std::uint64_t block_bytes(const File& file) const override {
    const bool in_messages = stored_.encrypted && moving_.block_bytes == 0;
    return in_messages ? WriteOptions().piece_bytes : CodecSubject::block_bytes(file);
  }

  const bool from_device_;
  const std::string file_name_;
  std::optional<DeviceTensors> memory_;
  std::unique_ptr<TensorSource> source_;
};

// Why a file is not in the page cache although it was just read.
std::string why_not_warm(const std::string& file_name, double share) {
  if (warm(file_name) >= kWarmShareMin && resident_share(file_name) < kWarmShareMin) {
    return fmt::format(
        "the file system drops {} from the page cache when it is opened (as FUSE does without keep_cache), so no warm "
        "read can be timed",
        file_name);
  }
  return fmt::format("only {:.0f} % of {} stays in the page cache, so no warm read can be timed", share * 100,
                     file_name);
}

}  // namespace

bool has_fio_job(std::string_view io) {
  const PathTraits traits = path_traits(io);
  return traits.bypasses_cache && !traits.polls_submissions && !traits.moves_device_memory;
}

unsigned thread_count(unsigned threads) { return threads != 0 ? threads : core_count(); }

unsigned queue_depth(const File& file, const IoSettings& moving) {
  if (moving.queue_depth != 0) return moving.queue_depth;
  const unsigned suits = file.queue_depth_default();
  return suits != 0 ? suits : thread_count(moving.threads);
}

std::uint64_t block_bytes(const File& file, const IoSettings& moving) {
  if (moving.block_bytes != 0) return moving.block_bytes;
  const std::size_t suits = file.transfer_bytes_default();
  return suits != 0 ? suits : ReadOptions().piece_bytes;
}

Sample timed_write(const Workplace& place, const std::string& file_name, std::uint64_t bytes, const IoSettings& moving,
                   const std::function<void(File&)>& fill) {
  std::filesystem::remove(file_name);
  touch_free_memory(bytes);
  Sample sample;
  const RunTimer watch(place.directory());
  auto file = open_file(file_name, OpenMode::kCreate, moving.io);
  if (moving.syncs) file->expect_sync();
  fill(*file);
  file.reset();
  watch.stop(sample);
  sync_written(file_name, sample);
  watch.stop_device(sample);
  return sample;
}

void sync_written(const std::string& file_name, Sample& sample) {
  const std::uint64_t cpu_before_ns = cpu_now_ns();
  const auto begin = std::chrono::steady_clock::now();
  open_file(file_name, OpenMode::kModify)->sync();
  sample.sync_ns = static_cast<std::uint64_t>((std::chrono::steady_clock::now() - begin) / std::chrono::nanoseconds(1));
  if (sample.cpu_ns) *sample.cpu_ns += cpu_now_ns() - cpu_before_ns;
}

double make_cache_state(const std::string& file_name, Cache cache, std::uint64_t memory_bytes) {
  const bool is_warm = cache == Cache::kWarm;
  double share = 0;
  // Pages that were written with RWF_DONTCACHE go when their writeback ends; read once more, they stay.
  for (int attempt = 0; attempt < kWarmAttempts; ++attempt) {
    share = is_warm ? warm(file_name) : drop(file_name);
    // Last, because taking memory can cost the file its place in the page cache. A warm file must also be one when the
    // run opens it.
    if (touch_free_memory(memory_bytes) || is_warm) share = resident_share(file_name);
    if (!is_warm || share >= kWarmShareMin) break;
  }
  if (is_warm && share < kWarmShareMin) throw Error(ErrorCode::kUnavailable, why_not_warm(file_name, share));
  if (!is_warm && share > kColdShareMax) {
    throw Error(
        ErrorCode::kUnavailable,
        fmt::format("{:.0f} % of {} stays in the page cache, so no cold read can be timed", share * 100, file_name));
  }
  return share;
}

std::unique_ptr<Subject> codec_read(Workplace& place, SharedContent content, const FileFormat& stored,
                                    const IoSettings& moving, const ReadSettings& reading) {
  return std::make_unique<CodecRead>(place, std::move(content), stored, moving, reading);
}
std::unique_ptr<Subject> codec_write(Workplace& place, SharedContent content, const FileFormat& stored,
                                     const IoSettings& moving, bool from_device) {
  return std::make_unique<CodecWrite>(place, std::move(content), stored, moving, from_device);
}
std::unique_ptr<Subject> codec_open(Workplace& place, SharedContent content, const FileFormat& stored,
                                    const IoSettings& moving) {
  return std::make_unique<CodecOpen>(place, std::move(content), stored, moving);
}

}  // namespace tzmark::bench
