// Reading tensors into GPU memory: through pinned host memory, or directly with the path gpudirect.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "codec/device_checks.h"
#include "codec/device_copies.h"
#include "codec/pipeline_threads.h"
#include "codec/scan_job.h"
#include "io/pinned_pool.h"
#include "tzmark/device.h"
#include "tzmark/device_compute.h"
#include "tzmark/error.h"
#include "tzmark/threads.h"

namespace tzmark {
namespace {

using DeviceTargetOf = std::function<MutableBuffer(std::size_t tensor)>;

// The widest alignment of vector instructions. Less than this is free between the tensors of a DeviceTensors.
constexpr std::uint64_t kTensorAlignBytes = 64;

// Returns whether the GPU decrypts and verifies.
bool computes_on_device(const ReaderState& state, const DeviceReadOptions& options, int device) {
  const bool bypasses_host = state.data().moves_device_memory();
  const std::string& why_not = why_no_device_compute(device);
  if (options.compute == DeviceCompute::kHost && bypasses_host) {
    throw Error(ErrorCode::kUsage, fmt::format("the I/O path {} bypasses the host, which cannot decrypt or verify then",
                                               state.data().io_path()));
  }
  if (options.compute == DeviceCompute::kDevice && !why_not.empty()) throw Error(ErrorCode::kUnavailable, why_not);
  if (options.compute != DeviceCompute::kAuto) return options.compute == DeviceCompute::kDevice;
  return bypasses_host || (options.verify != Verification::kAll && why_not.empty());
}

// Reads as ScanJob does and copies to the GPU; may leave the parts of large tensors to be decrypted and verified there.
class DeviceJob {
 public:
  using Piece = ScanJob::Piece;

  // device: the GPU of the destinations. gap_bytes: what may be written to between them, see DeviceCopy.
  DeviceJob(const ReaderState& state, const DeviceReadOptions& options, int device, std::size_t first, std::size_t end,
            DeviceTargetOf into, std::size_t gap_bytes)
      : state_(state),
        device_(device),
        on_device_(computes_on_device(state, options, device)),
        straight_(state.data().moves_device_memory()),
        piece_bytes_(piece_bytes_of(state, options)),
        pinned_bytes_max_(options.pinned_bytes_max),
        scan_(state, {.verify = options.verify}, first, end, {}, {}, {}, piece_bytes_),
        into_(std::move(into)),
        copies_(device, state.options.piece_bytes, state.index.header.encrypted, gap_bytes) {
    if (on_device_) checks_.emplace(state, options.verify, device, piece_bytes_, copies_);
  }

  // The options of the Reader, and those for a GPU. registered: the memory that contains all destinations.
  PipelineOptions pipeline_options(MutableBuffer registered) const {
    PipelineOptions options = state_.pipeline_options();
    options.piece_bytes = piece_bytes_;
    options.part_bytes = scan_.lane_part_bytes();
    if (!straight_) options.pins_for = device_;
    options.holds_secrets = state_.index.header.encrypted;
    options.check();
    // Each thread stages small tensors too.
    fit_into(options, pinned_bytes_max_, straight_ ? 0 : state_.options.piece_bytes);
    if (straight_) options.registered = registered;
    return options;
  }

  bool next(Piece& piece, const Position* before) {
    if (!scan_.next(piece, before)) return false;
    if (left_to_device(piece)) {
      piece.chain = nullptr;
      piece.streams = 0;
      piece.has_own_memory = straight_;
    }
    return true;
  }

  std::size_t reads(Piece& piece, std::span<std::byte> memory, FileTransfers& transfers) {
    if (!left_to_device(piece)) return scan_.reads(piece, memory, transfers);
    if (straight_) {
      transfers[0].file = &state_.data();
      transfers[0].transfer.offset = scan_.file_offset_of(piece);
      transfers[0].transfer.memory = target_of(piece);
    } else {
      scan_.plan_read(transfers[0], piece, memory);
    }
    return scan_.split(transfers);
  }

  void produce(Piece& piece, std::span<std::byte> memory) {
    if (left_to_device(piece)) return;
    scan_.produce(piece, memory);
  }

  std::size_t streams_max() const { return scan_.streams_max(); }
  std::size_t streams_wanted() const { return scan_.streams_wanted(); }

  void chain(std::span<ChainStep<Piece>> steps, const KeepMoving& keep_moving) {
    if (std::ranges::all_of(steps, [](const auto& step) { return step.piece->large != nullptr; })) {
      return scan_.chain(steps, keep_moving);
    }
    copies_.with([&](DeviceCopy& copy) {
      scan_.chain(steps, keep_moving,
                  [&](std::size_t tensor, std::span<const std::byte> data) { copy.gather(into_(tensor).data, data); });
      copy.flush();
    });
  }

  void consume(Piece& piece, std::span<std::byte> memory) {
    if (piece.large && !piece.has_own_memory && piece.length > 0) {
      piece.borrower = copies_.start_to_device(target_of(piece).data, scan_.plaintext_of(piece, memory));
    } else {
      check_on_device(piece);
    }
    scan_.consume(piece, memory);
  }

  void take_back(Piece& piece) {
    copies_.wait(static_cast<DeviceCopies::Started*>(std::exchange(piece.borrower, nullptr)));
    check_on_device(piece);
  }

  std::size_t writes(Piece&, std::span<std::byte>, FileTransfers&) { return 0; }

  // Reads everything, and verifies what could not be verified piece by piece. Throws the first error in file order.
  void run(MutableBuffer registered, std::uint64_t work_bytes) {
    Pipeline pipeline(*this, pipeline_options(registered), work_bytes, &state_.data());
    try {
      pipeline.run();
    } catch (...) {
      if (checks_) find_before(pipeline.error_position());
      throw;
    }
    if (checks_) checks_->finish();
  }

 private:
  // Throws the first error of the file before the position, if there is one.
  void find_before(Position end) {
    try {
      checks_->finish(end);
    } catch (const Error& error) {
      if (error.error_class() == ErrorClass::kFile) throw;
    } catch (...) {
      // The error of the pipeline says more than what fails after it.
    }
  }

  // SHA-256 is computed in lanes, whose parts suit the caches of the host.
  static std::size_t piece_bytes_of(const ReaderState& state, const DeviceReadOptions& options) {
    const ReadOptions& reading = state.options;
    if (options.verify == Verification::kAll) return reading.piece_bytes;
    const std::size_t wanted = std::max(options.piece_bytes, reading.piece_bytes);
    return state.index.header.encrypted ? wanted : run_bytes_max(wanted, reading.part_bytes);
  }

  // Once all bytes of the piece are there.
  void check_on_device(const Piece& piece) {
    if (!left_to_device(piece)) return;
    checks_->add(piece.first, piece.large, tensor_of(piece), piece.offset, piece.length);
  }

  bool left_to_device(const Piece& piece) const { return on_device_ && piece.large; }
  MutableBuffer tensor_of(const Piece& piece) const { return into_(state_.index.in_file_order(piece.first)); }
  MutableBuffer target_of(const Piece& piece) const { return tensor_of(piece).sub(piece.offset, piece.length); }

  const ReaderState& state_;
  const int device_;
  const bool on_device_;
  const bool straight_;
  const std::size_t piece_bytes_;
  const std::size_t pinned_bytes_max_;
  ScanJob scan_;
  const DeviceTargetOf into_;
  DeviceCopies copies_;
  std::optional<DeviceChecks> checks_;
};

void require_gpu() {
  if (const std::string why = DeviceMemory::why_unavailable(); !why.empty()) throw Error(ErrorCode::kUnavailable, why);
}

}  // namespace

void warm_up(const DeviceReadOptions& options, unsigned threads) {
  require_gpu();
  const DeviceMemory creates_the_context(1, options.device);
  static_cast<void>(why_no_device_compute(options.device));
  const std::size_t count = threads != 0 ? threads : core_count();
  const std::size_t usual_bytes = ReadOptions().piece_bytes;
  // The pool gives a block for anything from half of its size on.
  const std::size_t buffer_bytes =
      buffer_bytes_max(std::max(options.verify == Verification::kAll ? 0 : options.piece_bytes, usual_bytes));
  const std::size_t staging_bytes = count * usual_bytes;
  PinnedPool& pool = PinnedPool::instance();
  pool.fill(std::min(options.pinned_bytes_max, staging_bytes), usual_bytes, options.device);
  pool.fill(std::min(options.pinned_bytes_max, staging_bytes + (2 * count + 2) * buffer_bytes), buffer_bytes,
            options.device);
}

void Reader::read_into_device(std::size_t tensor, MutableBuffer out, const DeviceReadOptions& options) const {
  const ReadTarget target{tensor, out};
  read_into_device(std::span(&target, 1), options);
}

void Reader::read_into_device(std::span<const ReadTarget> targets, const DeviceReadOptions& options) const {
  require_gpu();
  for (const auto& [tensor, out] : targets) {
    state_->check_room(tensor, out.size);
    if (out.kind != MemoryKind::kDevice) {
      throw Error(ErrorCode::kUsage, "read_into_device() reads into GPU memory only");
    }
  }
  std::vector<ReadTarget> sorted(targets.begin(), targets.end());
  for (auto& [tensor, out] : sorted) {
    if (!tensors()[tensor].meta()) continue;
    fill_with_zeros(out);
    out = out.sub(0, 0);
  }
  const auto device_for = [&](const ReadTarget& t) { return t.out.size == 0 ? options.device : device_of(t.out); };
  const auto read = [&](std::span<const ReadTarget> run, int device) {
    std::uint64_t data_bytes = 0;
    for (const ReadTarget& target : run) data_bytes += target.out.size;
    const std::size_t first = state_->index.place_in_file(run.front().tensor);
    DeviceJob job(
        *state_, options, device, first, first + run.size(),
        [&](std::size_t tensor) { return run[state_->index.place_in_file(tensor) - first].out; },
        /*gap_bytes=*/0);
    job.run(run.size() == 1 ? run.front().out : MutableBuffer(), data_bytes);
  };
  for (std::span<const ReadTarget> run : runs_in_file(*state_, sorted)) {
    while (!run.empty()) {
      const int device = device_for(run.front());
      // For gpudirect, the memory of each tensor is registered by itself.
      std::size_t count = 1;
      while (!state_->data().moves_device_memory() && count < run.size() && device_for(run[count]) == device) ++count;
      read(run.first(count), device);
      run = run.subspan(count);
    }
  }
}

DeviceTensors Reader::load_into_device(const DeviceReadOptions& options) const {
  require_gpu();
  DeviceTensors loaded(tensors(), options.device);
  DeviceJob job(
      *state_, options, options.device, 0, tensors().size(), [&](std::size_t tensor) { return loaded[tensor]; },
      kTensorAlignBytes);
  job.run(loaded.all(), file_bytes());
  return loaded;
}

DeviceTensors::DeviceTensors(const TensorTable& tensors, int device) : memory_(0, device) {
  // A large tensor with this alignment in the file gets the same offset within a page here, so that gpudirect needs no
  // bounce buffer.
  constexpr std::uint64_t kPageBytes = 4096;
  constexpr std::uint64_t kLargeBytes = 1 << 20;
  ranges_.reserve(tensors.size());
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo tensor = tensors[i];
    if (tensor.data_length >= kLargeBytes && tensor.data_offset % kTensorAlignBytes == 0) {
      end += (tensor.data_offset - end) % kPageBytes;
    }
    ranges_.push_back({end, tensor.data_length});
    end += (tensor.data_length + kTensorAlignBytes - 1) / kTensorAlignBytes * kTensorAlignBytes;
  }
  memory_ = DeviceMemory(end, device);
}

}  // namespace tzmark
