// Batches of messages to decrypt and of parts to hash on the GPU.
#include "codec/device_checks.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "codec/secretbox.h"
#include "tzmark/device_compute.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

// A warp decrypts 32 KiB at a time; so much keeps all warps of a large GPU busy.
constexpr std::size_t kBatchBytes = std::size_t{256} << 20;

}  // namespace

DeviceChecks::DeviceChecks(const ReaderState& state, Verification verify, int device, std::size_t piece_bytes,
                           DeviceCopies& copies)
    : state_(state),
      verify_(verify),
      has_kernels_(why_no_device_compute(device).empty()),
      piece_bytes_(piece_bytes),
      copies_(copies) {
  if (state.index.header.encrypted && !has_kernels_) {
    throw Error(ErrorCode::kUnavailable, "the file cannot be decrypted on the GPU: " + why_no_device_compute(device));
  }
}

void DeviceChecks::add(std::size_t number, const std::shared_ptr<LargeTensor>& large, MutableBuffer tensor,
                       std::uint64_t offset, std::size_t length) {
  std::vector<Arrival> batch;
  {
    const std::lock_guard lock(mutex_);
    ArrivingTensor& known = tensors_.try_emplace(number, ArrivingTensor{large, tensor}).first->second;
    known.arrived_bytes += length;
    const auto& cipher = large->stream().cipher();
    if (!cipher || large->stream().is_read_raw(piece_bytes_)) {
      waiting_.push_back({&known, {offset, length, 0}});
    } else if (known.arrived_bytes == tensor.size) {
      // A message that is longer than a part must be complete.
      waiting_.push_back({&known, {0, tensor.size, 0}});
      length = tensor.size;
    } else {
      return;
    }
    waiting_bytes_ += length;
    if (waiting_bytes_ < kBatchBytes) return;
    batch.swap(waiting_);
    waiting_bytes_ = 0;
  }
  check(batch);
}

void DeviceChecks::finish(Position end) {
  check(waiting_);
  waiting_.clear();
  std::vector<ArrivingTensor*> order;
  for (auto& [number, tensor] : tensors_) {
    if (number < end.tensor && (tensor.failure || tensor.is_checked())) order.push_back(&tensor);
  }

  // SHA-256 uses one core per tensor, so several tensors are hashed in parallel.
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < order.size(); i = next++) {
      if (order[i]->failure) continue;
      try {
        verify(*order[i]);
      } catch (...) {
        order[i]->failure = std::current_exception();
      }
    }
  };
  {
    const std::size_t threads = std::min<std::size_t>(state_.pipeline_options().thread_count(), order.size());
    const auto helpers = start_threads(threads > 0 ? threads - 1 : 0, [&](std::size_t) { work(); });
    work();
  }
  for (const ArrivingTensor* tensor : order) {
    if (tensor->failure) std::rethrow_exception(tensor->failure);
  }
  // The last one ends early.
  const auto last = tensors_.find(end.tensor);
  if (last == tensors_.end() || !last->second.failure) return;
  const ArrivingTensor& tensor = last->second;
  if (tensor.failed_message * tensor.large->stream().cipher()->message_bytes < end.offset) {
    std::rethrow_exception(tensor.failure);
  }
}

void DeviceChecks::check(std::vector<Arrival>& batch) {
  open(batch);
  compute_crc32(batch);
  const std::lock_guard lock(mutex_);
  for (const Arrival& arrival : batch) arrival.tensor->checked.push_back(arrival.part);
}

void DeviceChecks::open(const std::vector<Arrival>& batch) {
  struct Origin {
    ArrivingTensor* tensor;
    std::uint64_t message;
  };
  struct Messages {
    std::vector<SealedMessage> sealed;
    std::vector<Origin> origins;
  };
  // The keys of a file's tensors may have been derived with different salts.
  std::map<const Key*, Messages> by_key;
  for (const auto& [tensor, part] : batch) {
    const auto& cipher = tensor->large->stream().cipher();
    if (!cipher) continue;
    Messages& messages = by_key[&tensor->large->stream().key()];
    for (std::uint64_t at = part.offset; at < part.offset + part.length; at += cipher->message_bytes) {
      const std::uint64_t number = at / cipher->message_bytes;
      const auto length =
          static_cast<std::size_t>(std::min<std::uint64_t>(cipher->message_bytes, part.offset + part.length - at));
      SealedMessage& message = messages.sealed.emplace_back();
      message.data = tensor->memory.sub(at, length);
      const Nonce nonce = message_nonce(cipher->nonce, number);
      std::memcpy(message.nonce.data(), nonce.data(), nonce.size());
      std::memcpy(message.mac.data(), cipher->macs.data() + number * kMacBytes, kMacBytes);
      messages.origins.push_back({tensor, number});
    }
  }
  for (const auto& [key, messages] : by_key) {
    for (const std::size_t wrong : open_on_device(key->bytes(), messages.sealed)) {
      const auto [tensor, message] = messages.origins[wrong];
      const std::lock_guard lock(mutex_);
      if (tensor->failure && tensor->failed_message < message) continue;
      tensor->failed_message = message;
      try {
        throw_wrong_mac(
            message, tensor->large->stream().data_offset() + message * tensor->large->stream().cipher()->message_bytes);
      } catch (...) {
        tensor->failure = std::current_exception();
      }
    }
  }
}

void DeviceChecks::compute_crc32(std::vector<Arrival>& batch) const {
  if (!has_kernels_) return;
  std::vector<ConstBuffer> ranges;
  std::vector<Arrival*> wanting;
  for (Arrival& arrival : batch) {
    if (!wants_crc32(*arrival.tensor)) continue;
    ranges.push_back(arrival.tensor->memory.sub(arrival.part.offset, arrival.part.length));
    wanting.push_back(&arrival);
  }
  if (ranges.empty()) return;
  const std::vector<std::uint32_t> sums = crc32_on_device(ranges);
  for (std::size_t i = 0; i < sums.size(); ++i) wanting[i]->part.crc32 = sums[i];
}

void DeviceChecks::verify(ArrivingTensor& tensor) const {
  if (verify_ == Verification::kNone) return;
  const ExpectedHashes& expected = tensor.expected();
  TensorDigest digest;
  digest.begin(expected.hashed_header(), wants_crc32(tensor), wants_sha256(tensor));
  if (wants_sha256(tensor) || (wants_crc32(tensor) && !has_kernels_)) {
    add_from_device(copies_, tensor.memory, wants_crc32(tensor), digest);
  } else {
    std::ranges::sort(tensor.checked);
    for (const CheckedPart& part : tensor.checked) digest.add_crc32(part.crc32, part.length);
  }
  expected.check(digest.crc32(), digest.finish_sha256(), verify_);
}

}  // namespace tzmark
