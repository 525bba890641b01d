// Choosing kernels, and feeding many messages to them.
//
// While more messages live than the kernel has lanes, the longest ones run, for a fraction of their remaining length,
// so that all messages end at about the same time and lanes stay full to the end.
#include "simd/sha256.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <string>

#include "bytes/sha256_context.h"
#include "simd/forced.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(TZMARK_HAS_SHA2_KERNELS)
#include <sys/auxv.h>
#endif

namespace tzmark::simd {
namespace {

static_assert(SHA256_CBLOCK == kSha256BlockBytes && sizeof(SHA_LONG) == sizeof(std::uint32_t));

// Parts that need no allocation.
constexpr std::size_t kPartsOnStack = 64;

// A message runs that fraction of its remaining blocks before a waiting one takes its lane, and at least so many
// blocks: a turn costs about as much as two blocks.
constexpr std::size_t kTurns = 16, kMinTurnBlocks = 32;

// A wider kernel has to be so much faster, because it needs more messages of the same length.
constexpr double kWorthMoreLanes = 1.03;

void compress_openssl(std::uint32_t* const* states, const std::byte* const* data, std::size_t blocks) {
  SHA256_CTX context;
  SHA256_Init(&context);
  std::memcpy(context.h, states[0], sizeof(context.h));
  SHA256_Update(&context, data[0], blocks * kSha256BlockBytes);
  std::memcpy(states[0], context.h, sizeof(context.h));
}

#if defined(__x86_64__)
// __builtin_cpu_supports of Clang 14 does not know SHA-NI.
bool has_sha_ni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("sse4.1") != 0 && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> 29 & 1) != 0;
}
#endif

// A message with whole blocks to compress.
struct Stream {
  std::uint32_t* state;
  const std::byte* data;
  std::size_t blocks;
};

bool is_longer(const Stream& a, const Stream& b) { return a.blocks > b.blocks; }

// Compresses so many blocks of each of the streams, which are not more than the kernel's lanes.
void compress(const Sha256Kernel& kernel, std::span<Stream> streams, std::size_t blocks) {
  std::array<std::uint32_t*, kMaxSha256Lanes> states;
  std::array<const std::byte*, kMaxSha256Lanes> data;
  std::array<std::uint32_t, 8> spare{};
  for (std::size_t i = 0; i < kernel.lanes; ++i) {
    states[i] = i < streams.size() ? streams[i].state : spare.data();
    data[i] = i < streams.size() ? streams[i].data : streams[0].data;
  }
  kernel.compress(states.data(), data.data(), blocks);
  for (Stream& stream : streams) {
    stream.data += blocks * kSha256BlockBytes;
    stream.blocks -= blocks;
  }
}

void compress_all(const Sha256Plan& plan, std::span<Stream> live) {
  while (!live.empty()) {
    const Sha256Plan::Step& step = plan.step(live.size());
    const std::span<Stream> running = live.first(step.messages), waiting = live.subspan(step.messages);
    if (!waiting.empty()) std::ranges::nth_element(live, waiting.begin(), is_longer);
    const auto [shortest, longest] = std::ranges::minmax(running, {}, &Stream::blocks);
    std::size_t blocks = shortest.blocks;
    // One message after another wants no turns.
    if (!waiting.empty() && step.messages > 1) {
      const std::size_t ahead = shortest.blocks - std::ranges::max(waiting, {}, &Stream::blocks).blocks;
      blocks = std::min(blocks, ahead + std::max(kMinTurnBlocks, longest.blocks / kTurns));
    }
    compress(step.kernel, running, blocks);
    const auto end = std::partition(live.begin(), live.end(), [](const Stream& stream) { return stream.blocks > 0; });
    live = {live.begin(), end};
  }
}

// Adds the whole blocks that a message was fed past OpenSSL to its length, which is in bits.
void add_length(SHA256_CTX& context, std::size_t bytes) {
  const std::uint64_t before = std::uint64_t{context.Nh} << 32 | context.Nl;
  const std::uint64_t after = before + std::uint64_t{bytes} * 8;
  context.Nl = static_cast<SHA_LONG>(after);
  context.Nh = static_cast<SHA_LONG>(after >> 32);
}

}  // namespace

std::span<const Sha256Kernel> sha256_kernels() {
  static const std::vector<Sha256Kernel> kernels = [] {
    std::vector<Sha256Kernel> found = {{"none", 1, compress_openssl}};
#if defined(__x86_64__)
    if (has_sha_ni()) {
      found.push_back({"sha-ni", 2, compress_sha_ni<2, kSha256Constants>});
      found.push_back({"sha-ni", 3, compress_sha_ni<3, kSha256Constants>});
      found.push_back({"sha-ni", 4, compress_sha_ni<4, kSha256Constants>});
    }
    if (__builtin_cpu_supports("avx2") != 0) found.push_back({"avx2", 8, compress_avx2<kSha256Constants>});
    if (__builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
        __builtin_cpu_supports("avx512bw") != 0) {
      found.push_back({"avx512", 8, compress_avx512_half<kSha256Constants>});
      found.push_back({"avx512", 16, compress_avx512<kSha256Constants>});
    }
#elif defined(TZMARK_HAS_SHA2_KERNELS)
    if ((::getauxval(AT_HWCAP) & HWCAP_SHA2) != 0) {
      found.push_back({"sha2", 2, compress_sha2<2, kSha256Constants>});
      found.push_back({"sha2", 3, compress_sha2<3, kSha256Constants>});
      found.push_back({"sha2", 4, compress_sha2<4, kSha256Constants>});
    }
#endif
    return found;
  }();
  return kernels;
}

Sha256Plan Sha256Plan::forced(const Sha256Kernel& single, std::span<const Sha256Kernel> kernels) {
  Sha256Plan plan;
  for (unsigned live = 1; live <= plan.steps_.size(); ++live) {
    const auto fitting =
        std::ranges::find_if(kernels, [&](const Sha256Kernel& kernel) { return kernel.lanes >= live; });
    const Sha256Kernel& kernel = live == 1 ? single : fitting == kernels.end() ? kernels.back() : *fitting;
    plan.steps_[live - 1] = {kernel, std::min(live, kernel.lanes)};
  }
  plan.few_lanes_ = plan.lanes();
  return plan;
}

Sha256Plan Sha256Plan::fastest(std::span<const Sha256Kernel> kernels, std::span<const double> seconds) {
  Sha256Plan plan;
  Step best;
  double best_rate = 0;
  std::array<double, kMaxSha256Lanes> rates{};
  for (unsigned live = 1; live <= plan.steps_.size(); ++live) {
    // With fewer than that many, what was best for one message less still is, and messages take turns.
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      const double rate = kernels[i].lanes < live ? 0 : live / seconds[i];
      if (rate < best_rate * (live == best.messages ? 1 : kWorthMoreLanes) || rate <= best_rate) continue;
      best = {kernels[i], live};
      best_rate = rate;
    }
    plan.steps_[live - 1] = best;
    rates[live - 1] = best_rate;
  }
  plan.few_lanes_ =
      rates[kFewLanes - 1] >= kFewLanesRate * best_rate ? std::min(kFewLanes, plan.lanes()) : plan.lanes();
  return plan;
}

std::vector<double> measure_sha256(std::span<const Sha256Kernel> kernels) {
  constexpr std::size_t kBlocks = 192;  // per try, of all lanes together
  constexpr int kTries = 21;
  // Lanes may read the same bytes; each begins at another block.
  const std::vector<std::byte> bytes((kBlocks + kMaxSha256Lanes) * kSha256BlockBytes, std::byte{0x5a});
  std::array<std::array<std::uint32_t, 8>, kMaxSha256Lanes> words{};
  std::array<std::uint32_t*, kMaxSha256Lanes> states;
  std::array<const std::byte*, kMaxSha256Lanes> data;
  for (unsigned i = 0; i < kMaxSha256Lanes; ++i) {
    states[i] = words[i].data();
    data[i] = bytes.data() + i * kSha256BlockBytes;
  }
  std::vector<double> seconds(kernels.size(), std::numeric_limits<double>::infinity());
  // Turn by turn, so that a change of the clock rate meets all kernels.
  for (int turn = 0; turn < kTries; ++turn) {
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      const std::size_t blocks = kBlocks / kernels[i].lanes;
      const auto begin = std::chrono::steady_clock::now();
      kernels[i].compress(states.data(), data.data(), blocks);
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
      seconds[i] = std::min(seconds[i], time.count() / static_cast<double>(blocks));
    }
  }
  return seconds;
}

Sha256Plan make_sha256_plan(std::optional<std::string_view> forced, std::span<const Sha256Kernel> kernels) {
  if (!forced) return Sha256Plan::fastest(kernels, measure_sha256(kernels));
  const std::string_view name = parse_forced(*forced);
  const auto first = std::ranges::find(kernels, name, &Sha256Kernel::name);
  if (first == kernels.end()) throw_forced_unavailable(name);
  const auto end = std::find_if(first, kernels.end(), [&](const Sha256Kernel& kernel) { return kernel.name != name; });
  return Sha256Plan::forced(kernels.front(), {first, end});
}

const Sha256Plan& sha256_plan() {
  static const Sha256Plan plan = make_sha256_plan(forced_kernel(), sha256_kernels());
  return plan;
}

void update_side_by_side(const Sha256Plan& plan, std::span<const Sha256Part> parts) {
  if (parts.size() == 1 || plan.lanes() == 1) {
    for (const Sha256Part& part : parts) part.hash->update(part.bytes);
    return;
  }
  std::array<Stream, kPartsOnStack> on_stack;
  std::vector<Stream> on_heap(parts.size() > on_stack.size() ? parts.size() : 0);
  const std::span<Stream> streams = on_heap.empty() ? std::span<Stream>(on_stack) : on_heap;
  std::size_t count = 0;
  for (const Sha256Part& part : parts) {
    SHA256_CTX& context = Sha256Access::context(*part.hash);
    std::span<const std::byte> bytes = part.bytes;
    if (context.num != 0) {
      const std::size_t missing = std::min(kSha256BlockBytes - context.num, bytes.size());
      SHA256_Update(&context, bytes.data(), missing);
      bytes = bytes.subspan(missing);
    }
    if (bytes.empty()) continue;
    const std::size_t blocks = bytes.size() / kSha256BlockBytes;
    // OpenSSL keeps what follows the last whole block, and does not touch the words of the state for it.
    const std::span<const std::byte> tail = bytes.subspan(blocks * kSha256BlockBytes);
    SHA256_Update(&context, tail.data(), tail.size());
    if (blocks == 0) continue;
    add_length(context, blocks * kSha256BlockBytes);
    streams[count++] = {context.h, bytes.data(), blocks};
  }
  compress_all(plan, streams.first(count));
}

}  // namespace tzmark::simd

namespace tzmark {

void update_side_by_side(std::span<const Sha256Part> parts) { simd::update_side_by_side(simd::sha256_plan(), parts); }

void update_side_by_side(std::span<const Sha256Part> parts, std::string_view kernel) {
  simd::update_side_by_side(simd::make_sha256_plan(kernel, simd::sha256_kernels()), parts);
}

std::vector<std::string_view> sha256_kernels() {
  std::vector<std::string_view> names;
  for (const simd::Sha256Kernel& kernel : simd::sha256_kernels()) {
    if (names.empty() || names.back() != kernel.name) names.push_back(kernel.name);
  }
  return names;
}

void require_sha256_kernel() {
  if (simd::forced_kernel()) simd::sha256_plan();
}

std::string_view sha256_kernel() { return simd::sha256_plan().name(); }

unsigned sha256_lanes() { return simd::sha256_plan().lanes(); }

unsigned sha256_few_lanes() { return simd::sha256_plan().few_lanes(); }

}  // namespace tzmark
