// See cluster/rank_worker.h.
#include "cluster/rank_worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <optional>
#include <tuple>
#include <utility>

#include "harness/device_counters.h"
#include "harness/free_memory.h"
#include "harness/threads.h"
#include "subjects/block_mover.h"
#include "tzmark/error.h"
#include "tzmark/first_touch.h"
#include "tzmark/group.h"
#include "tzmark/reader.h"

namespace tzmark::bench {
namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t since_ns(Clock::time_point begin) {
  return static_cast<std::uint64_t>((Clock::now() - begin) / std::chrono::nanoseconds(1));
}

// A group whose ranks are the roles.
class GroupOfRoles final : public Group {
 public:
  GroupOfRoles(Group& ranks, unsigned shift) : ranks_(ranks), shift_(shift % ranks.size()) {}

  unsigned rank() const override { return (ranks_.rank() + shift_) % ranks_.size(); }
  unsigned size() const override { return ranks_.size(); }
  void broadcast(std::span<std::byte> memory, unsigned root) override {
    ranks_.broadcast(memory, (root + ranks_.size() - shift_) % ranks_.size());
  }
  void all_gather(std::span<std::byte> memory) override {
    // The parts are in the order of the roles.
    if (shift_ != 0) return Group::all_gather(memory);
    ranks_.all_gather(memory);
  }

 private:
  Group& ranks_;
  const unsigned shift_;
};

// Compares memory with what one thread reads in order, by another path.
void require_same(const std::string& file_name, const RankParts& parts, std::span<const std::byte> memory) {
  const auto file = open_file(file_name, OpenMode::kRead, is_url(file_name) ? "auto" : "pwrite");
  std::vector<std::byte> expected;
  for (const FilePart& part : parts.parts) {
    expected.resize(std::max<std::size_t>(expected.size(), part.bytes));
    file->read_at(part.offset, {expected.data(), part.bytes});
    if (std::memcmp(expected.data(), memory.data() + part.at, part.bytes) == 0) continue;
    throw Error(ErrorCode::kFileChanged, "what the rank got differs from the file", part.offset);
  }
}

// The monotonic clock begins with the machine, and machines may have one name.
std::string clock_of_machine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

}  // namespace

double worse_share(Cache cache, double one, double other) {
  return cache == Cache::kWarm ? std::min(one, other) : std::max(one, other);
}

void guarded(RankRun& run, const std::function<void()>& action) {
  if (run.error_code) return;
  try {
    action();
  } catch (const Error& error) {
    run.error_code = error.code();
    run.error_text = error.message();
    if (error.offset()) run.error_text += fmt::format(" at byte {}", *error.offset());
  } catch (const std::exception& error) {
    run.error_code = ErrorCode::kResource;
    run.error_text = error.what();
  }
}

std::string ClusterFiles::shard(unsigned rank) const { return fmt::format("{}/shard-{}.tensors", directory, rank); }

// What a rank reads in a run.
struct RankWorker::Plan {
  std::string file_name;
  RankParts parts;
};

RankWorker::RankWorker(Ranks& ranks, const IoSettings& moving, Cache cache)
    : ranks_(ranks), moving_(moving), cache_(cache), clock_(clock_of_machine()) {
  if (moving_.threads == 0) moving_.threads = std::max(1U, core_count() / ranks_.host().ranks);
}

RankRun RankWorker::adopt(const std::string& directory) {
  RankRun run{.host = ranks_.host().name};
  guarded(run, [&] {
    if (ranks_.rank() != 0) removed_ = std::make_unique<RemovedDirectory>(RemovedDirectory::OfAnother{directory});
  });
  return run;
}

RankRun RankWorker::set_up(const ClusterFiles& files) {
  RankRun run{.host = ranks_.host().name};
  files_ = files;
  guarded(run, [&] {
    if (files_.with_writes) writes_.emplace(ranks_, moving_, make_workload(files_.workload, files_.written_bytes));
    const auto file = open_file(files_.model, OpenMode::kRead, moving_.io);
    io_path_ = file->io_path();
    model_bytes_ = file->size();
    moving_.block_bytes = block_bytes(*file, moving_);
    moving_.queue_depth = queue_depth(*file, moving_);
    const Reader reader = Reader::open(files_.model);
    for (std::size_t i = 0; i < reader.tensors().size(); ++i) {
      const TensorInfo tensor = reader.tensors()[i];
      tensors_.push_back(
          {tensor.data_offset, tensor.data_length, tensor.shape.size() < 2 ? std::uint64_t{0} : tensor.shape[0]});
    }
    if (!files_.with_shards) return;
    const TensorContent content(make_workload(files_.workload, files_.shard_bytes));
    write_file(files_.shard(ranks_.rank()), content.table(), content.source(), write_options({}));
  });
  if (files_.with_writes && ranks_.agree(!run.error_code)) {
    guarded(run, [&] { writes_->make_place(files_.directory); });
  }
  return run;
}

std::uint64_t RankWorker::tensor_bytes() const {
  std::uint64_t sum = 0;
  for (const StoredTensor& tensor : tensors_) sum += tensor.bytes;
  return sum;
}

RankWorker::Plan RankWorker::plan(const Order& order, unsigned role) const {
  const unsigned roles = ranks_.size();
  switch (order.pattern) {
    case Pattern::kSliced:
      return {files_.model, slices(tensors_, moving_.block_bytes, role, roles)};
    case Pattern::kSharded: {
      const std::string file_name = files_.shard(role);
      return {file_name, whole_file(std::filesystem::file_size(file_name), moving_.block_bytes, 0, 1)};
    }
    case Pattern::kRotated:
      return {files_.model, whole_file(model_bytes_, moving_.block_bytes, role, roles)};
    case Pattern::kSegments:
    case Pattern::kCheckpoint:
      return {files_.model, {.parts = {}, .bytes = writes_->bytes()}};
    case Pattern::kSame:
    case Pattern::kBroadcast:
    case Pattern::kGather:
      break;
  }
  return {files_.model, whole_file(model_bytes_, moving_.block_bytes, 0, 1)};
}

void RankWorker::make_caches_so(RankRun& run) const {
  if (!ranks_.host().is_first() || is_url(files_.model)) return;
  double share = make_cache_state(files_.model, cache_);
  for (unsigned rank = 0; files_.with_shards && rank < ranks_.size(); ++rank) {
    share = worse_share(cache_, share, make_cache_state(files_.shard(rank), cache_));
  }
  run.resident_share = share;
}

void RankWorker::move(const Plan& plan, const Order& order, RankRun& run) {
  HostMemory memory;
  std::unique_ptr<File> file;
  GroupOfRoles roles(ranks_, order.shift);
  GroupFile* shared = nullptr;
  IoSettings moving = moving_;
  ranks_.barrier();
  const auto begin = Clock::now();
  run.began_ns = static_cast<std::uint64_t>(begin.time_since_epoch() / std::chrono::nanoseconds(1));
  const std::uint64_t cpu_ns = cpu_now_ns();
  guarded(run, [&] {
    file = open_file(plan.file_name, OpenMode::kRead, moving_.io);
    if (!is_exchange(order.pattern)) return;
    const GroupRead how = order.pattern == Pattern::kGather ? GroupRead::kGather : GroupRead::kBroadcast;
    auto of_group =
        std::make_unique<GroupFile>(std::move(file), roles,
                                    GroupReadOptions{.how = how,
                                                     .queue_depth = moving_.queue_depth,
                                                     .transfer_bytes = static_cast<std::size_t>(moving_.block_bytes)});
    shared = of_group.get();
    file = std::move(of_group);
    // What is in flight is in the exchange; these only copy.
    moving.queue_depth = 1;
  });
  if (is_exchange(order.pattern) && !ranks_.agree(shared != nullptr)) return;
  run.open_ns = since_ns(begin);
  guarded(run, [&] {
    const FileRange whole{0, model_bytes_};
    if (shared != nullptr) shared->start({&whole, 1});
    memory = new_memory(plan.parts.bytes, Pages::kHuge);
    FirstTouch first_touch(memory.bytes());
    BlockMover mover(*file, Transfer::Kind::kRead, plan.parts.parts.size(), moving,
                     [&](std::uint64_t number, std::size_t) {
                       const FilePart& part = plan.parts.parts[number];
                       return Block{part.offset, {memory.bytes().data() + part.at, part.bytes}};
                     });
    mover.before_each([&](const Transfer& transfer) {
      first_touch.touch({transfer.memory.data, transfer.memory.size});
    });
    LatencyHistogram ignored;
    mover.run({ignored, ignored});
  });
  if (shared != nullptr) {
    shared->finish();
    guarded(run, [&] {
      if (shared->failure()) std::rethrow_exception(shared->failure());
    });
  }
  run.elapsed_ns = since_ns(begin);
  run.cpu_ns = cpu_now_ns() - cpu_ns;
  run.bytes = plan.parts.bytes;
  // Ranks that exchange may still be sending what others wait for.
  ranks_.barrier();
  if (order.is_check) guarded(run, [&] { require_same(plan.file_name, plan.parts, memory.bytes()); });
}

void RankWorker::write(const Order& order, RankRun& run) {
  guarded(run, [&] { writes_->renew(); });
  ranks_.barrier();
  const auto begin = Clock::now();
  run.began_ns = static_cast<std::uint64_t>(begin.time_since_epoch() / std::chrono::nanoseconds(1));
  const std::uint64_t cpu_ns = cpu_now_ns();
  guarded(run, [&] { writes_->write(order.pattern, run); });
  run.elapsed_ns = since_ns(begin);
  run.cpu_ns = cpu_now_ns() - cpu_ns;
  run.bytes = writes_->bytes();
  if (order.is_check) guarded(run, [&] { writes_->check(order.pattern); });
  ranks_.barrier();
}

unsigned RankWorker::role_of(const Order& order) const {
  const unsigned ranks = ranks_.size();
  // No rank reads the shard that it wrote.
  const unsigned shift = order.pattern == Pattern::kSharded && ranks > 1 ? 1 + order.shift % (ranks - 1) : order.shift;
  return (ranks_.rank() + shift) % ranks;
}

RankRun RankWorker::run(const Order& order) {
  RankRun run{.host = ranks_.host().name, .clock = clock_, .role = role_of(order)};
  Plan planned;
  guarded(run, [&] {
    if (!is_write(order.pattern)) make_caches_so(run);
    planned = plan(order, run.role);
    touch_free_memory(planned.parts.bytes);
  });
  std::optional<DeviceCounters> before;
  std::string directory;
  guarded(run, [&] {
    if (!ranks_.host().is_first() || is_url(planned.file_name)) return;
    // Of the file, wherever a link to it is.
    directory = std::filesystem::canonical(planned.file_name).parent_path();
    before = device_counters(directory);
  });
  if (!ranks_.agree(!run.error_code)) return run;
  is_write(order.pattern) ? write(order, run) : move(planned, order, run);
  guarded(run, [&] {
    const auto after = before ? device_counters(directory) : std::nullopt;
    if (!after) return;
    const DeviceCounters moved = *after - *before;
    run.device_read_bytes = moved.read_bytes;
    run.device_written_bytes = moved.written_bytes;
  });
  if (!is_write(order.pattern)) return run;
  // Also what a write that failed has left.
  RankRun removal;
  guarded(removal, [&] { writes_->clear(); });
  if (!run.error_code) std::tie(run.error_code, run.error_text) = std::tie(removal.error_code, removal.error_text);
  return run;
}

}  // namespace tzmark::bench
