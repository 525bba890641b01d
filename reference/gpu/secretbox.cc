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

constexpr unsigned kSecretboxBlocksPerProcessor = 4;

gpu::SecretboxMessage for_kernel(const SealedMessage& message) {
  gpu::SecretboxMessage result{reinterpret_cast<std::uintptr_t>(message.data.data), message.data.size, {}, {}};
  std::memcpy(result.nonce, message.nonce.data(), message.nonce.size());
  std::memcpy(result.mac, message.mac.data(), message.mac.size());
  return result;
}

}  // namespace

std::vector<std::size_t> open_on_device(std::span<const std::byte, 32> key, std::span<const SealedMessage> messages) {
  std::vector<ConstBuffer> memory(messages.size());
  std::ranges::transform(messages, memory.begin(), &SealedMessage::data);
  const int device = gpu::device_of_all(memory);
  const gpu::Kernels& kernels = gpu::Kernels::of(device);
  std::vector<gpu::SecretboxMessage> described(messages.size());
  std::ranges::transform(messages, described.begin(), for_kernel);
  std::vector<std::uint32_t> results(messages.size());
  const auto described_bytes = std::as_bytes(std::span(described));
  const auto result_bytes = std::as_writable_bytes(std::span(results));
  const std::size_t messages_at = gpu::next_place(key.size());
  const std::size_t results_at = gpu::next_place(messages_at + described_bytes.size());
  gpu::Work work(device, results_at + result_bytes.size());
  if (messages.empty()) return {};
  work.upload(0, key);
  work.upload(messages_at, described_bytes);
  work.clear(results_at, result_bytes.size());
  work.launch(kernels.secretbox(),
              static_cast<unsigned>(std::min<std::size_t>(
                  messages.size(), std::size_t{kernels.processors()} * kSecretboxBlocksPerProcessor)),
              gpu::kSecretboxThreads,
              gpu::SecretboxArguments{work.pointer<const std::uint32_t>(0),
                                      work.pointer<const gpu::SecretboxMessage>(messages_at), messages.size(),
                                      work.pointer<std::uint32_t>(results_at)});
  work.download(results_at, result_bytes.size());
  work.finish();
  std::ranges::copy(work.downloaded(results_at, result_bytes.size()), result_bytes.begin());
  std::vector<std::size_t> wrong;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i] == gpu::kSecretboxWrongMac) wrong.push_back(i);
    // A missing result must not count as a correct MAC.
    if (results[i] != gpu::kSecretboxWrongMac && results[i] != gpu::kSecretboxOpened) {
      throw Error(ErrorCode::kResource,
                  fmt::format("the GPU returned no result for message {} of {}", i, messages.size()));
    }
  }
  return wrong;
}

}  // namespace tzmark
