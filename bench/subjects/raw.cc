// Raw transfers: blocks of a file through a File and its queues, without the codec; see ours.h.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <vector>

#include "harness/threads.h"
#include "subjects/ours.h"
#include "tzmark/device_memory.h"
#include "tzmark/error.h"
#include "tzmark/gpudirect.h"

namespace tzmark::bench {
namespace {

// Transfers each block of a file once, on several threads.
class BlockMover {
 public:
  // Returns the memory for a block. No two transfers in flight share a slot.
  using MemoryOf = std::function<std::byte*(std::uint64_t block, std::size_t slot)>;

  BlockMover(File& file, Transfer::Kind kind, std::uint64_t bytes, const IoSettings& moving, MemoryOf memory_of,
             MemoryKind memory_kind = MemoryKind::kHost)
      : file_(file),
        kind_(kind),
        bytes_(bytes),
        moving_(moving),
        memory_of_(std::move(memory_of)),
        memory_kind_(memory_kind) {
    const unsigned threads = thread_count(moving.threads);
    const unsigned depth = queue_depth(file, moving);
    workers_ = file.is_asynchronous() ? threads : std::max(threads, depth);
    queue_depth_ = file.is_asynchronous() ? (depth + threads - 1) / threads : 1;
  }

  // Sets memory that transfers use repeatedly, so that queues can register it.
  void reuse(MutableBuffer memory) { reused_ = memory; }

  std::size_t slot_count() const { return std::size_t{workers_} * queue_depth_; }

  void run(LatencyHistogram& latency) {
    {
      const auto helpers = start_all(
          workers_ - 1, [this, &latency](std::size_t i) { work(static_cast<unsigned>(i) + 1, latency); },
          [this](std::size_t) { next_block_ = bytes_; });
      work(0, latency);
    }
    if (error_) std::rethrow_exception(error_);
  }

 private:
  struct InFlight {
    Transfer transfer;
    std::chrono::steady_clock::time_point begin;
    std::size_t number = 0;
  };

  void work(unsigned worker, LatencyHistogram& latency) try {
    LatencyHistogram own;
    std::vector<InFlight> slots(queue_depth_);
    for (std::size_t i = 0; i < slots.size(); ++i) slots[i].number = worker * std::size_t{queue_depth_} + i;
    const auto queue = file_.make_queue(queue_depth_);
    if (reused_.size > 0) queue->register_memory({&reused_, 1});
    std::size_t fresh = 0;
    while (fresh < slots.size() && start(slots[fresh], *queue)) ++fresh;
    while (queue->in_flight() > 0) {
      Transfer& done = queue->wait();
      InFlight& slot = *static_cast<InFlight*>(done.owner);
      own.record(std::chrono::steady_clock::now() - slot.begin);
      if (done.error) std::rethrow_exception(done.error);
      start(slot, *queue);
    }
    const std::lock_guard lock(mutex_);
    latency.merge(own);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::current_exception();
    next_block_ = bytes_;  // ends the other threads
  }

  bool start(InFlight& slot, TransferQueue& queue) {
    const std::uint64_t block = next_block_.fetch_add(1);
    if (block >= (bytes_ + moving_.block_bytes - 1) / moving_.block_bytes) return false;
    const std::uint64_t offset = block * moving_.block_bytes;
    slot.transfer.kind = kind_;
    slot.transfer.offset = offset;
    slot.transfer.memory = {memory_of_(block, slot.number),
                            static_cast<std::size_t>(std::min<std::uint64_t>(moving_.block_bytes, bytes_ - offset)),
                            memory_kind_};
    slot.transfer.owner = &slot;
    slot.begin = std::chrono::steady_clock::now();
    queue.start(slot.transfer);
    return true;
  }

  File& file_;
  const Transfer::Kind kind_;
  const std::uint64_t bytes_;
  const IoSettings moving_;
  const MemoryOf memory_of_;
  const MemoryKind memory_kind_;
  MutableBuffer reused_;
  unsigned workers_;
  unsigned queue_depth_;
  std::atomic<std::uint64_t> next_block_ = 0;
  std::mutex mutex_;
  std::exception_ptr error_;
};

class RawSubject : public Subject {
 protected:
  RawSubject(Workplace& place, SharedContent content, const IoSettings& moving)
      : place_(place), content_(std::move(content)), moving_(moving) {
    RunDescription& d = description_;
    d.subject = "raw";
    d.io_requested = moving.io;
    d.workload = content_->workload().name;
    d.block_bytes = moving.block_bytes;
    d.threads = thread_count(moving.threads);
    d.verified_first = true;
    // Whole blocks, as the subjects that this one is compared with.
    d.bytes = content_->data_bytes() / moving.block_bytes * moving.block_bytes;
    if (d.bytes == 0) d.bytes = content_->data_bytes();
  }

  void describe(const File& file) {
    description_.io_actual = file.io_path();
    description_.queue_depth = queue_depth(file, moving_);
  }

  void require_same(std::span<const std::byte> bytes) const {
    if (std::memcmp(bytes.data(), content_->bytes().data(), description_.bytes) != 0) {
      throw Error(ErrorCode::kFileChanged, "the transferred bytes differ from the content");
    }
  }

  // Returns memory for all slots of a mover, allocated on first use.
  std::byte* slot_memory(const BlockMover& mover) {
    const std::size_t bytes = mover.slot_count() * moving_.block_bytes;
    if (slots_.bytes().size() < bytes) slots_ = HostMemory(bytes);
    return slots_.bytes().data();
  }

  Workplace& place_;
  const SharedContent content_;
  const IoSettings moving_;
  HostMemory slots_;
};

class RawRead final : public RawSubject {
 public:
  RawRead(Workplace& place, SharedContent content, const IoSettings& moving, Target target, Cache cache)
      : RawSubject(place, std::move(content), moving), target_(target), cache_(cache) {
    description_.operation = FileOperation::kRead;
    description_.target = target;
    description_.cache = cache;
  }

  void verify() override {
    file_name_ = place_.raw_file(content_, description_.cache);
    make_cache_state(file_name_, cache_);
    HostMemory memory(description_.bytes);
    LatencyHistogram ignored;
    read_into(&memory, ignored);
    require_same(memory.bytes());
  }

  Sample run() override {
    Sample sample;
    sample.resident_share = make_cache_state(file_name_, cache_, description_.bytes);
    HostMemory memory;
    const RunTimer watch(place_.directory());
    if (target_ == Target::kSink) {
      read_into(nullptr, latency_);
    } else {
      memory = HostMemory(description_.bytes,
                          target_ == Target::kHugePages ? HostMemory::Pages::kHuge : HostMemory::Pages::kSmall);
      read_into(&memory, latency_);
    }
    watch.stop(sample);
    watch.stop_device(sample);
    return sample;
  }

 private:
  void read_into(HostMemory* memory, LatencyHistogram& latency) {
    const auto file = open_file(file_name_, OpenMode::kRead, moving_.io);
    describe(*file);
    std::byte* slots = nullptr;
    BlockMover mover(*file, Transfer::Kind::kRead, description_.bytes, moving_,
                     [&](std::uint64_t block, std::size_t slot) {
                       return memory != nullptr ? memory->bytes().data() + block * moving_.block_bytes
                                                : slots + slot * moving_.block_bytes;
                     });
    if (memory == nullptr) {
      slots = slot_memory(mover);
      mover.reuse(slots_.bytes());
    }
    mover.run(latency);
  }

  const Target target_;
  const Cache cache_;
  std::string file_name_;
};

class RawWrite final : public RawSubject {
 public:
  RawWrite(Workplace& place, SharedContent content, const IoSettings& moving)
      : RawSubject(place, std::move(content), moving), file_name_(place.new_name(".raw-written")) {
    description_.operation = FileOperation::kWrite;
  }

  void verify() override {
    static_cast<void>(run());
    HostMemory memory(description_.bytes);
    open_file(file_name_, OpenMode::kRead)->read_at(0, memory.bytes());
    require_same(memory.bytes());
    std::filesystem::remove(file_name_);
    latency_ = {};
  }

  Sample run() override {
    content_->make_new_version();
    return timed_write(place_, file_name_, description_.bytes, moving_.io, [&](File& file) {
      describe(file);
      file.reserve(description_.bytes);
      // A write does not change the memory.
      auto* const bytes = const_cast<std::byte*>(content_->bytes().data());
      BlockMover mover(file, Transfer::Kind::kWrite, description_.bytes, moving_,
                       [&](std::uint64_t block, std::size_t) { return bytes + block * moving_.block_bytes; });
      mover.run(latency_);
    });
  }

 private:
  const std::string file_name_;
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

  void move(File& file, Transfer::Kind kind, LatencyHistogram& latency) {
    describe(file);
    std::byte* const memory = memory_->buffer().data;
    BlockMover mover(
        file, kind, description_.bytes, moving_,
        [&](std::uint64_t block, std::size_t) { return memory + block * moving_.block_bytes; }, MemoryKind::kDevice);
    mover.reuse(memory_->buffer());
    mover.run(latency);
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
    LatencyHistogram ignored;
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
    move(*open_file(file_name_, OpenMode::kRead, moving_.io), Transfer::Kind::kRead, latency_);
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
    latency_ = {};
  }

  Sample run() override {
    content_->make_new_version();
    memory_->copy_from_host(0, content_->bytes().first(description_.bytes));
    return timed_write(place_, file_name_, description_.bytes, moving_.io, [&](File& file) {
      file.reserve(description_.bytes);
      move(file, Transfer::Kind::kWrite, latency_);
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
                                  Cache cache) {
  return std::make_unique<RawRead>(place, std::move(content), moving, target, cache);
}
std::unique_ptr<Subject> raw_write(Workplace& place, SharedContent content, const IoSettings& moving) {
  return std::make_unique<RawWrite>(place, std::move(content), moving);
}

}  // namespace tzmark::bench
