// Decrypting messages on the GPU.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "gpu/secretbox_kernel.h"
#include "gpu/work.h"
#include "tzmark/device_compute.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

constexpr unsigned kSecretboxBlocksPerProcessor = 2;

gpu::SecretboxMessage for_kernel(const SealedMessage& message) {
  gpu::SecretboxMessage result{device_address(message.data.data), message.data.size, {}, {}, 0, 0};
  std::memcpy(result.nonce, message.nonce.data(), message.nonce.size());
  std::memcpy(result.mac, message.mac.data(), message.mac.size());
  return result;
}

// Opens messages of one GPU. Returns the results of each.
std::vector<std::uint32_t> open_some(int device, std::span<const std::byte, 32> key,
                                     std::span<const SealedMessage> messages, std::chrono::nanoseconds* kernel_time) {
  const gpu::Kernels& kernels = gpu::Kernels::of(device);
  std::vector<gpu::SecretboxMessage> described(messages.size());
  std::uint64_t chunks = 0;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    described[i] = for_kernel(messages[i]);
    described[i].first = static_cast<std::uint32_t>(chunks);
    chunks += gpu::secretbox_chunk_count(messages[i].data.size);
  }
  if (chunks > UINT32_MAX) throw Error(ErrorCode::kUsage, "more data than one call can open");
  std::vector<std::uint32_t> results(messages.size());
  const auto described_bytes = std::as_bytes(std::span(described));
  const auto result_bytes = std::as_writable_bytes(std::span(results));
  const std::size_t messages_at = gpu::next_place(key.size());
  const std::size_t results_at = gpu::next_place(messages_at + described_bytes.size());
  const std::size_t exchanged_bytes = results_at + result_bytes.size();
  const std::size_t keys_at = gpu::next_place(exchanged_bytes);
  const std::size_t shares_at = gpu::next_place(keys_at + messages.size() * sizeof(gpu::SecretboxKeys));
  gpu::Work work(device, shares_at + chunks * sizeof(gpu::Limbs), exchanged_bytes, kernel_time);
  if (messages.empty()) return results;
  work.upload(0, key);
  work.upload(messages_at, described_bytes);
  work.clear(results_at, result_bytes.size());
  const gpu::SecretboxArguments arguments{
      work.pointer<const std::uint32_t>(0),        work.pointer<const gpu::SecretboxMessage>(messages_at),
      static_cast<std::uint32_t>(messages.size()), static_cast<std::uint32_t>(chunks),
      work.pointer<std::uint32_t>(results_at),     work.pointer<gpu::SecretboxKeys>(keys_at),
      work.pointer<gpu::Limbs>(shares_at),         gpu::kSalsa20Factor};
  const std::uint64_t blocks_max = std::uint64_t{kernels.processors()} * kSecretboxBlocksPerProcessor;
  const std::uint64_t message_blocks = std::min<std::uint64_t>(messages.size(), blocks_max);
  const std::uint64_t chunk_blocks = std::min(chunks, blocks_max);
  work.launch(kernels.secretbox_keys(), message_blocks, arguments);
  work.launch(kernels.secretbox_macs(), chunk_blocks, arguments);
  work.launch(kernels.secretbox_verdicts(), message_blocks, arguments);
  work.launch(kernels.secretbox_open(), chunk_blocks, arguments);
  work.download(results_at, result_bytes.size());
  work.finish();
  std::ranges::copy(work.downloaded(results_at, result_bytes.size()), result_bytes.begin());
  return results;
}

}  // namespace

std::vector<std::size_t> open_on_device(std::span<const std::byte, 32> key, std::span<const SealedMessage> messages,
                                        std::chrono::nanoseconds* kernel_time) {
  // What is derived from the key takes 768 bytes of GPU memory per message, which may have as few as 1,024 bytes.
  constexpr std::size_t kMessagesMax = 4096;
  std::vector<ConstBuffer> memory(messages.size());
  std::ranges::transform(messages, memory.begin(), &SealedMessage::data);
  const int device = gpu::device_of_all(memory);
  std::vector<std::size_t> wrong;
  std::chrono::nanoseconds total{};
  for (std::size_t first = 0; first == 0 || first < messages.size(); first += kMessagesMax) {
    const auto some = messages.subspan(first, std::min(kMessagesMax, messages.size() - first));
    const std::vector<std::uint32_t> results = open_some(device, key, some, kernel_time);
    if (kernel_time != nullptr) total += *kernel_time;
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i] == gpu::kSecretboxWrongMac) wrong.push_back(first + i);
      // A missing result must not count as a correct MAC.
      if (results[i] != gpu::kSecretboxWrongMac && results[i] != gpu::kSecretboxOpened) {
        throw Error(ErrorCode::kResource,
                    fmt::format("the GPU returned no result for message {} of {}", first + i, messages.size()));
      }
    }
  }
  if (kernel_time != nullptr) *kernel_time = total;
  return wrong;
}

}  // namespace tzmark
