// Raw transfers: blocks of a file through a File and its queues, without the codec; see ours.h.
#include <sodium.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <vector>

#include "harness/free_memory.h"
#include "subjects/block_mover.h"
#include "subjects/ours.h"
#include "tzmark/device_memory.h"
#include "tzmark/error.h"
#include "tzmark/first_touch.h"
#include "tzmark/gpudirect.h"

namespace tzmark::bench {
namespace {

// For latencies that are not read.
struct IgnoredLatencies {
  LatencyHistogram submission, completion;
  operator Latencies() { return {submission, completion}; }
};

// The memory of a block of a whole file. No two transfers in flight share a slot.
using MemoryOf = std::function<std::byte*(std::uint64_t block, std::size_t slot)>;

// Moves the first bytes of a file in blocks of equal size.
BlockMover move_blocks(File& file, Transfer::Kind kind, std::uint64_t bytes, const IoSettings& moving,
                       MemoryOf memory_of, MemoryKind memory_kind = MemoryKind::kHost) {
  const std::uint64_t block_bytes = moving.block_bytes;
  return {file, kind, (bytes + block_bytes - 1) / block_bytes, moving,
          [=, memory_of = std::move(memory_of)](std::uint64_t number, std::size_t slot) -> Block {
            const std::uint64_t offset = number * block_bytes;
            return {offset,
                    {memory_of(number, slot), static_cast<std::size_t>(std::min(block_bytes, bytes - offset)),
                     memory_kind}};
          }};
}

// A block of a tensor in a file. Its memory is that of the content.
struct TensorBlock {
  Block block;
  std::uint64_t loaded_offset;  // where the codec loads it: every tensor begins at a multiple of kLoadedAlignBytes
};
constexpr std::uint64_t kLoadedAlignBytes = 64;

struct TensorBlocks {
  std::vector<TensorBlock> blocks;  // in the order of the file
  std::uint64_t loaded_bytes = 0;

  std::uint64_t file_end() const {
    return blocks.empty() ? 0 : blocks.back().block.offset + blocks.back().block.memory.size;
  }
};

TensorBlocks blocks_of_tensors(const Reader& reader, const TensorContent& content, std::uint64_t block_bytes) {
  TensorBlocks all;
  for (std::size_t i = 0; i < content.table().size(); ++i) {
    const auto found = reader.find(content.workload().tensors[i].name);
    if (!found) throw Error(ErrorCode::kFileChanged, "a tensor is missing");
    const std::uint64_t begin = reader.tensors()[*found].data_offset;
    const std::span<const std::byte> tensor = content[i];
    // A write does not change the memory.
    auto* const memory = const_cast<std::byte*>(tensor.data());
    for (std::uint64_t at = 0; at < tensor.size(); at += block_bytes) {
      const auto bytes = static_cast<std::size_t>(std::min(block_bytes, tensor.size() - at));
      all.blocks.push_back({{begin + at, {memory + at, bytes}}, all.loaded_bytes + at});
    }
    all.loaded_bytes += (tensor.size() + kLoadedAlignBytes - 1) / kLoadedAlignBytes * kLoadedAlignBytes;
  }
  std::ranges::sort(all.blocks, {}, [](const TensorBlock& one) { return one.block.offset; });
  return all;
}

class RawSubject : public Subject {
 protected:
  RawSubject(Workplace& place, SharedContent content, const IoSettings& moving, std::optional<FileFormat> as = {})
      : place_(place), content_(std::move(content)), moving_(moving), as_(as) {
    RunDescription& d = description_;
    d.subject = "raw";
    d.io_requested = moving.io;
    d.workload = content_->workload().name;
    d.workload_label = content_->workload().label();
    d.is_default_block = moving.block_bytes == 0;
    d.threads = thread_count(moving.threads);
    d.verified_first = true;
    d.bytes = content_->data_bytes();
    if (!as_) return;
    if (as_->encrypted) throw Error(ErrorCode::kUsage, "raw transfers cannot decrypt");
    d.detail = "as-codec";
    d.layout = std::string(layout_name(as_->layout));
    d.tensors = content_->table().size();
  }

  // Called by verify, before anything is timed.
  void describe(const File& file) {
    RunDescription& d = description_;
    d.io_actual = file.io_path();
    d.queue_depth = queue_depth(file, moving_);
    d.block_bytes = moving_.block_bytes = block_bytes(file, moving_);
    // Whole blocks, as the subjects that this one is compared with.
    if (!as_ && d.bytes > moving_.block_bytes) d.bytes -= d.bytes % moving_.block_bytes;
  }

  Latencies latencies() { return {submission_, latency_}; }

  void require_same(std::span<const std::byte> bytes) const {
    if (std::memcmp(bytes.data(), content_->bytes().data(), description_.bytes) != 0) {
      throw Error(ErrorCode::kFileChanged, "the transferred bytes differ from the content");
    }
  }

  // Returns memory for all slots of a mover. It is allocated and touched on first use, so before anything is timed.
  std::byte* slot_memory(const BlockMover& mover) {
    const std::size_t bytes = mover.slot_count() * moving_.block_bytes;
    if (slots_.bytes().size() < bytes) {
      slots_ = new_memory(bytes, description_.pages.value_or(Pages::kHuge));
      randombytes_buf(slots_.bytes().data(), bytes);
    }
    return slots_.bytes().data();
  }

  Workplace& place_;
  const SharedContent content_;
  IoSettings moving_;
  const std::optional<FileFormat> as_;
  TensorBlocks blocks_;  // where the codec stores the tensors
  HostMemory slots_;
};

class RawRead final : public RawSubject {
 public:
  RawRead(Workplace& place, SharedContent content, const IoSettings& moving, Target target, Cache cache,
          std::optional<FileFormat> as)
      : RawSubject(place, std::move(content), moving, as), target_(target), cache_(cache) {
    if (as && target == Target::kSink) throw Error(ErrorCode::kUsage, "raw transfers of tensors need their memory");
    description_.operation = FileOperation::kRead;
    description_.target = target;
    description_.cache = cache;
    description_.pages = target == Target::kSmallPages ? Pages::kSmall : Pages::kHuge;
    description_.first_touch = target == Target::kSmallPages;  // huge pages are touched before a transfer starts
  }

  void prepare() override {
    if (as_) {
      file_name_ = place_.file(content_, *as_, description_.cache);
      blocks_ = blocks_of_tensors(Reader::open(file_name_, read_options(as_->encrypted)), *content_,
                                  block_bytes(*open_file(file_name_, OpenMode::kRead, moving_.io), moving_));
    } else {
      file_name_ = place_.raw_file(content_, description_.cache);
    }
    make_cache_state(file_name_, cache_);
  }

  void verify() override {
    prepare();
    HostMemory memory(target_bytes());
    IgnoredLatencies ignored;
    read_into(&memory, ignored);
    if (!as_) require_same(memory.bytes());
    for (const auto& [block, loaded_offset] : blocks_.blocks) {
      if (std::memcmp(memory.bytes().data() + loaded_offset, block.memory.data, block.memory.size) == 0) continue;
      throw Error(ErrorCode::kFileChanged, "the transferred bytes differ from the content");
    }
    if (target_ == Target::kSink) read_into(nullptr, ignored);
  }

  Sample run() override {
    Sample sample;
    sample.resident_share =
        make_cache_state(file_name_, cache_, target_ == Target::kSink ? slots_.bytes().size() : description_.bytes);
    HostMemory memory;
    const RunTimer watch(place_.directory());
    if (target_ == Target::kSink) {
      read_into(nullptr, latencies());
    } else {
      memory = new_memory(target_bytes(), *description_.pages);
      read_into(&memory, latencies());
    }
    watch.stop(sample);
    watch.stop_device(sample);
    see_pages(huge_share(target_ == Target::kSink ? slots_.bytes() : memory.bytes()));
    return sample;
  }

 private:
  void read_into(HostMemory* memory, Latencies latencies) {
    const auto file = open_file(file_name_, OpenMode::kRead, moving_.io);
    describe(*file);
    std::byte* slots = nullptr;
    // The codec does the same for new huge pages.
    FirstTouch first_touch(memory != nullptr && description_.pages == Pages::kHuge ? memory->bytes()
                                                                                   : std::span<std::byte>());
    BlockMover mover = as_ ? move_tensors(*file, *memory)
                           : move_blocks(*file, Transfer::Kind::kRead, description_.bytes, moving_,
                                         [&](std::uint64_t block, std::size_t slot) {
                                           return memory != nullptr
                                                      ? memory->bytes().data() + block * moving_.block_bytes
                                                      : slots + slot * moving_.block_bytes;
                                         });
    if (memory == nullptr) {
      slots = slot_memory(mover);
      mover.reuse(slots_.bytes());
    }
    mover.before_each([&](const Transfer& transfer) {
      first_touch.touch({transfer.memory.data, transfer.memory.size});
    });
    mover.run(latencies);
  }

  std::uint64_t target_bytes() const { return as_ ? blocks_.loaded_bytes : description_.bytes; }

  BlockMover move_tensors(File& file, HostMemory& memory) const {
    return {file, Transfer::Kind::kRead, blocks_.blocks.size(), moving_,
            [this, &memory](std::uint64_t number, std::size_t) {
              const TensorBlock& one = blocks_.blocks[number];
              return Block{one.block.offset, {memory.bytes().data() + one.loaded_offset, one.block.memory.size}};
            }};
  }

  const Target target_;
  const Cache cache_;
  std::string file_name_;
};

class RawWrite final : public RawSubject {
 public:
  RawWrite(Workplace& place, SharedContent content, const IoSettings& moving, std::optional<FileFormat> as)
      : RawSubject(place, std::move(content), moving, as), file_name_(place.new_name(".raw-written")) {
    description_.operation = FileOperation::kWrite;
    description_.pages = Pages::kHuge;
  }

  void verify() override {
    see_pages(huge_share(content_->bytes()));
    if (as_) find_blocks();
    static_cast<void>(run());
    // What the codec writes after the last tensor is not there.
    HostMemory memory(as_ ? blocks_.file_end() : description_.bytes);
    open_file(file_name_, OpenMode::kRead)->read_at(0, memory.bytes());
    if (!as_) require_same(memory.bytes());
    for (const TensorBlock& one : blocks_.blocks) {
      const Block& block = one.block;
      if (std::memcmp(memory.bytes().data() + block.offset, block.memory.data, block.memory.size) == 0) continue;
      throw Error(ErrorCode::kFileChanged, "the transferred bytes differ from the content");
    }
    std::filesystem::remove(file_name_);
    latency_ = submission_ = {};
  }

  Sample run() override {
    content_->make_new_version();
    return timed_write(place_, file_name_, description_.bytes, moving_, [&](File& file) {
      describe(file);
      file.reserve(as_ ? file_bytes_ : description_.bytes);
      // A write does not change the memory.
      auto* const bytes = const_cast<std::byte*>(content_->bytes().data());
      BlockMover mover =
          as_ ? BlockMover(file, Transfer::Kind::kWrite, blocks_.blocks.size(), moving_,
                           [&](std::uint64_t number, std::size_t) { return blocks_.blocks[number].block; })
              : move_blocks(file, Transfer::Kind::kWrite, description_.bytes, moving_,
                            [&](std::uint64_t block, std::size_t) { return bytes + block * moving_.block_bytes; });
      mover.run(latencies());
    });
  }

 private:
  // Has the codec write such a file.
  void find_blocks() {
    write_file(file_name_, content_->table(), content_->source(), write_options(*as_));
    const Reader reader = Reader::open(file_name_, read_options(as_->encrypted));
    blocks_ =
        blocks_of_tensors(reader, *content_, block_bytes(*open_file(file_name_, OpenMode::kRead, moving_.io), moving_));
    file_bytes_ = std::filesystem::file_size(file_name_);
    std::filesystem::remove(file_name_);
  }

  const std::string file_name_;
  std::uint64_t file_bytes_ = 0;
};

// What fio does, done by us: the same bytes in the same order between a file and reused memory, timed from when all
// threads are ready until the last transfer ends.
class RawAsFio final : public RawSubject {
 public:
  RawAsFio(Workplace& place, SharedContent content, FileOperation operation, const IoSettings& moving, Pages pages)
      : RawSubject(place, std::move(content), moving) {
    RunDescription& d = description_;
    d.detail = "as-fio";
    d.operation = operation;
    d.target = Target::kSink;
    d.cache = operation == FileOperation::kRead ? Cache::kDirect : Cache::kNone;
    d.pages = pages;
  }

  void verify() override {
    const bool reads = description_.operation == FileOperation::kRead;
    const std::string raw = place_.raw_file(content_, Cache::kDirect);
    file_name_ = reads ? raw : place_.new_name(".as-fio");
    const auto file = open_file(raw, OpenMode::kRead, moving_.io);
    describe(*file);
    description_.bytes = fio_bytes(as_fio_job(*content_, description_.operation, moving_, *description_.queue_depth));
    HostMemory memory(description_.bytes);
    IgnoredLatencies ignored;
    if (reads) {
      move_blocks(*file, Transfer::Kind::kRead, description_.bytes, moving_, [&](std::uint64_t block, std::size_t) {
        return memory.bytes().data() + block * moving_.block_bytes;
      }).run(ignored);
      require_same(memory.bytes());
    } else {
      static_cast<void>(transfer(ignored));
      open_file(file_name_, OpenMode::kRead)->read_at(0, memory.bytes());
      for (std::uint64_t at = 0; at < memory.bytes().size(); at += kScrambledBytes) {
        if (std::memcmp(memory.bytes().data() + at, &at, sizeof at) == 0) continue;
        throw Error(ErrorCode::kFileChanged, "the transferred bytes differ from those in memory");
      }
    }
  }

  Sample run() override {
    if (description_.operation == FileOperation::kWrite) {
      touch_free_memory(slots_.bytes().size());
      return transfer(latencies());
    }
    const double share = make_cache_state(file_name_, Cache::kDirect, slots_.bytes().size());
    Sample sample = transfer(latencies());
    sample.resident_share = share;
    return sample;
  }

 private:
  static constexpr std::size_t kScrambledBytes = 512;

  // As fio's --scramble_buffers: no two blocks and no two files are equal.
  void scramble(const Transfer& transfer) const {
    const auto now = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
    for (std::size_t at = 0; at < transfer.memory.size; at += kScrambledBytes) {
      const std::uint64_t offset = transfer.offset + at;
      std::memcpy(transfer.memory.data + at, &offset, sizeof offset);
      std::memcpy(transfer.memory.data + at + kScrambledBytes - sizeof now, &now, sizeof now);
    }
  }

  Sample transfer(Latencies into) {
    const bool reads = description_.operation == FileOperation::kRead;
    if (!reads) std::filesystem::remove(file_name_);
    auto file = open_file(file_name_, reads ? OpenMode::kRead : OpenMode::kCreate, moving_.io);
    if (!reads) file->reserve(description_.bytes);
    std::byte* slots = nullptr;
    BlockMover mover =
        move_blocks(*file, reads ? Transfer::Kind::kRead : Transfer::Kind::kWrite, description_.bytes, moving_,
                    [&](std::uint64_t, std::size_t slot) { return slots + slot * moving_.block_bytes; });
    slots = slot_memory(mover);
    mover.reuse(slots_.bytes());
    mover.start_together();
    if (!reads) mover.before_each([this](const Transfer& transfer) { scramble(transfer); });
    Sample sample;
    const RunTimer watch(place_.directory());
    const std::chrono::nanoseconds elapsed = mover.run(into);
    watch.stop(sample);
    sample.elapsed_ns = static_cast<std::uint64_t>(elapsed.count());
    file.reset();
    if (!reads) sync_written(file_name_, sample);
    watch.stop_device(sample);
    see_pages(huge_share(slots_.bytes()));
    return sample;
  }

  std::string file_name_;
};

// Transfers between a file and GPU memory. The memory holds the whole content, so that a read can be verified.
class DeviceSubject : public RawSubject {
 protected:
  DeviceSubject(Workplace& place, SharedContent content, const IoSettings& moving)
      : RawSubject(place, std::move(content), moving) {
    description_.target = Target::kDevice;
  }

  void make_memory() {
    if (!memory_) memory_.emplace(description_.bytes);
  }

  void move(File& file, Transfer::Kind kind, Latencies latencies) {
    describe(file);
    std::byte* const memory = memory_->buffer().data;
    BlockMover mover = move_blocks(
        file, kind, description_.bytes, moving_,
        [&](std::uint64_t block, std::size_t) { return memory + block * moving_.block_bytes; }, MemoryKind::kDevice);
    mover.reuse(memory_->buffer());
    mover.run(latencies);
  }

  std::optional<DeviceMemory> memory_;
};

class DeviceRead final : public DeviceSubject {
 public:
  DeviceRead(Workplace& place, SharedContent content, const IoSettings& moving)
      : DeviceSubject(place, std::move(content), moving) {
    description_.operation = FileOperation::kRead;
    description_.cache = Cache::kDirect;
  }

  void verify() override {
    make_memory();
    file_name_ = place_.raw_file(content_, description_.cache);
    IgnoredLatencies ignored;
    attest(description_,
           [&] { move(*open_file(file_name_, OpenMode::kRead, moving_.io), Transfer::Kind::kRead, ignored); });
    HostMemory host(description_.bytes);
    memory_->copy_to_host(0, host.bytes());
    require_same(host.bytes());
  }

  Sample run() override {
    Sample sample;
    sample.resident_share = make_cache_state(file_name_, Cache::kDirect, description_.bytes);
    const RunTimer watch(place_.directory());
    move(*open_file(file_name_, OpenMode::kRead, moving_.io), Transfer::Kind::kRead, latencies());
    watch.stop(sample);
    watch.stop_device(sample);
    return sample;
  }

 private:
  std::string file_name_;
};

class DeviceWrite final : public DeviceSubject {
 public:
  DeviceWrite(Workplace& place, SharedContent content, const IoSettings& moving)
      : DeviceSubject(place, std::move(content), moving), file_name_(place.new_name(".device-written")) {
    description_.operation = FileOperation::kWrite;
  }

  void verify() override {
    make_memory();
    attest(description_, [&] { static_cast<void>(run()); });
    HostMemory host(description_.bytes);
    open_file(file_name_, OpenMode::kRead)->read_at(0, host.bytes());
    require_same(host.bytes());
    std::filesystem::remove(file_name_);
    latency_ = submission_ = {};
  }

  Sample run() override {
    content_->make_new_version();
    memory_->copy_from_host(0, content_->bytes().first(description_.bytes));
    return timed_write(place_, file_name_, description_.bytes, moving_, [&](File& file) {
      file.reserve(description_.bytes);
      move(file, Transfer::Kind::kWrite, latencies());
    });
  }

 private:
  const std::string file_name_;
};

}  // namespace

void attest(RunDescription& description, const std::function<void()>& pass) {
  GpuDirectObserver observer;
  observer.begin();
  pass();
  const GpuDirectAttestation seen = observer.end();
  description.gpudirect = {{"route", seen.route},
                           {"source", seen.source},
                           {"p2p_bytes", seen.p2p_bytes},
                           {"nvfs_bytes", seen.nvfs_bytes},
                           {"posix_bytes", seen.posix_bytes}};
  if (!seen.note.empty()) description.notes.push_back(seen.note);
}

std::unique_ptr<Subject> device_read(Workplace& place, SharedContent content, const IoSettings& moving) {
  return std::make_unique<DeviceRead>(place, std::move(content), moving);
}
std::unique_ptr<Subject> device_write(Workplace& place, SharedContent content, const IoSettings& moving) {
  return std::make_unique<DeviceWrite>(place, std::move(content), moving);
}

std::unique_ptr<Subject> raw_read(Workplace& place, SharedContent content, const IoSettings& moving, Target target,
                                  Cache cache, std::optional<FileFormat> as) {
  return std::make_unique<RawRead>(place, std::move(content), moving, target, cache, as);
}
std::unique_ptr<Subject> raw_write(Workplace& place, SharedContent content, const IoSettings& moving,
                                   std::optional<FileFormat> as) {
  return std::make_unique<RawWrite>(place, std::move(content), moving, as);
}
std::unique_ptr<Subject> raw_as_fio(Workplace& place, SharedContent content, FileOperation operation,
                                    const IoSettings& moving, Pages pages) {
  return std::make_unique<RawAsFio>(place, std::move(content), operation, moving, pages);
}

FioJob as_fio_job(const TensorContent& content, FileOperation operation, const IoSettings& moving, unsigned depth) {
  FioJob job;
  job.operation = operation == FileOperation::kRead ? FioOperation::kRead : FioOperation::kWrite;
  job.engine = path_traits(moving.io).is_asynchronous ? FioEngine::kIoUring : FioEngine::kPsync;
  job.bytes = content.data_bytes();
  job.block_bytes = moving.block_bytes;
  job.threads = thread_count(moving.threads);
  job.queue_depth = depth;
  job.direct = job.reserve = true;
  if (job.bytes < job.block_bytes * std::max(job.threads, depth)) {
    throw Error(ErrorCode::kUnavailable, "too little data for fio: less than one block per transfer in flight");
  }
  return job;
}

HostMemory new_memory(std::size_t bytes, Pages pages) {
  return HostMemory(bytes, pages == Pages::kHuge ? HostMemory::Pages::kHuge : HostMemory::Pages::kSmall);
}

}  // namespace tzmark::bench
