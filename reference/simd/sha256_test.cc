// Tests of hashing side by side: every kernel of this machine against OpenSSL, and each check against kernels with one
// wrong constant, which it has to notice. Also plans and how they are chosen.
#include "simd/sha256.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>
#include <random>
#include <string>
#include <thread>

#include "bytes/sha256_context.h"
#include "tzmark/error.h"

namespace {

std::atomic<std::uint64_t> allocations = 0;

// Neither is inlined, since a compiler that sees one of a pair takes it for a mismatch of new and free.
[[gnu::noinline]] void* allocate(std::size_t bytes) {
  ++allocations;
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void release(void* memory) noexcept { std::free(memory); }

}  // namespace

// The static analyzer takes objects of gmock for leaks of malloc otherwise.
#ifndef __clang_analyzer__
void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new[](std::size_t bytes) { return allocate(bytes); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
#endif

namespace tzmark::simd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::byte> random_bytes(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(count);
  std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random()); });
  return bytes;
}

// A message that is hashed side by side with others, and by OpenSSL alone.
struct Message {
  Message() { SHA256_Init(&expected); }

  void expect(std::span<const std::byte> bytes) { SHA256_Update(&expected, bytes.data(), bytes.size()); }
  // Ends the message, and starts a new one.
  bool is_right() {
    Sha256Digest digest;
    SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), &expected);
    SHA256_Init(&expected);
    return hash.finish() == digest;
  }

  Sha256 hash;
  SHA256_CTX expected;
};

// Feeds message i parts[i]. Returns the index of the first wrong digest; -1 if all are right.
int first_wrong(const Sha256Plan& plan, const std::vector<std::span<const std::byte>>& contents) {
  std::vector<Message> messages(contents.size());
  std::vector<Sha256Part> parts;
  for (std::size_t i = 0; i < contents.size(); ++i) {
    parts.push_back({&messages[i].hash, contents[i]});
    messages[i].expect(contents[i]);
  }
  update_side_by_side(plan, parts);
  for (std::size_t i = 0; i < contents.size(); ++i) {
    if (!messages[i].is_right()) return static_cast<int>(i);
  }
  return -1;
}

// Each check returns what it found wrong, and nothing if all is right.

std::string check_every_length(const Sha256Plan& plan) {
  constexpr std::size_t kMaxLength = 4200, kAtOnce = 41;
  const std::vector<std::byte> bytes = random_bytes(kMaxLength + 64, 1);
  for (std::size_t first = 0; first <= kMaxLength; first += kAtOnce) {
    std::vector<std::span<const std::byte>> contents;
    for (std::size_t length = first; length < std::min(first + kAtOnce, kMaxLength + 1); ++length) {
      contents.push_back(std::span(bytes).subspan(length % 61, length));
    }
    if (const int i = first_wrong(plan, contents); i >= 0) return "length " + std::to_string(first + i);
  }
  return {};
}

std::string check_long_messages(const Sha256Plan& plan) {
  constexpr std::size_t kMaxLength = 8 << 20;
  static const std::vector<std::byte> bytes = random_bytes(kMaxLength + 64, 2);
  std::mt19937_64 random(3);
  std::vector<std::span<const std::byte>> contents;
  while (contents.size() < 19) {
    contents.push_back(std::span(bytes).subspan(random() % 64, random() % (kMaxLength + 1)));
  }
  const int i = first_wrong(plan, contents);
  return i < 0 ? "" : "length " + std::to_string(contents[i].size());
}

std::string check_every_alignment(const Sha256Plan& plan) {
  constexpr std::size_t kLength = 5 * kSha256BlockBytes;
  const std::vector<std::byte> bytes = random_bytes(kLength + 64, 4);
  std::vector<std::span<const std::byte>> contents;
  for (std::size_t offset = 0; offset < 64; ++offset) contents.push_back(std::span(bytes).subspan(offset, kLength));
  const int i = first_wrong(plan, contents);
  return i < 0 ? "" : "offset " + std::to_string(i);
}

std::string check_every_count(const Sha256Plan& plan) {
  const std::vector<std::byte> bytes = random_bytes(20'000, 5);
  std::mt19937_64 random(6);
  for (std::size_t count = 1; count <= 40; ++count) {
    for (const bool equal : {true, false}) {
      std::vector<std::span<const std::byte>> contents;
      for (std::size_t i = 0; i < count; ++i) {
        contents.push_back(std::span(bytes).subspan(i, equal ? 6400 : random() % 12'000));
      }
      // Of unequal ones, at least one has whole blocks.
      contents[0] = std::span(bytes).first(7000);
      if (first_wrong(plan, contents) >= 0) return std::to_string(count) + " messages";
    }
  }
  return {};
}

std::string check_joining_and_leaving(const Sha256Plan& plan) {
  constexpr int kSteps = 100'000;
  const std::vector<std::byte> bytes = random_bytes(6'000, 7);
  std::mt19937_64 random(8);
  std::vector<Message> messages(48);
  std::vector<std::size_t> order(messages.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::vector<Sha256Part> parts;
  for (int step = 0; step < kSteps; ++step) {
    parts.clear();
    // Few most of the time, and all of them at times.
    const std::size_t count = random() % (random() % 16 == 0 ? order.size() + 1 : 8);
    for (std::size_t i = 0; i < count; ++i) {
      std::swap(order[i], order[i + random() % (order.size() - i)]);
      Message& message = messages[order[i]];
      const std::size_t length = random() % (random() % 64 == 0 ? 5000 : 200);
      parts.push_back({&message.hash, std::span(bytes).subspan(random() % 1000, length)});
      message.expect(parts.back().bytes);
    }
    update_side_by_side(plan, parts);
    if (random() % 4 == 0 && !messages[random() % messages.size()].is_right()) return "step " + std::to_string(step);
  }
  for (Message& message : messages) {
    if (!message.is_right()) return "at the end";
  }
  return {};
}

// The length that ends a message has 64 bits, in two words of OpenSSL's context.
std::string check_length_counter(const Sha256Plan& plan) {
  const std::vector<std::byte> bytes = random_bytes(4096, 9);
  for (const std::uint64_t bits : {0xffffe000ULL, 0x1'ffff'fe00ULL, 0xffff'ffff'0000ULL, 0x7fff'ffff'ffff'fe00ULL}) {
    std::vector<Message> messages(20);
    std::vector<Sha256Part> parts;
    for (Message& message : messages) {
      for (SHA256_CTX* const context : {&Sha256Access::context(message.hash), &message.expected}) {
        context->Nl = static_cast<SHA_LONG>(bits);
        context->Nh = static_cast<SHA_LONG>(bits >> 32);
      }
      parts.push_back({&message.hash, bytes});
      message.expect(bytes);
    }
    update_side_by_side(plan, parts);
    for (Message& message : messages) {
      if (!message.is_right()) return "after " + std::to_string(bits) + " bits";
    }
  }
  return {};
}

struct Check {
  const char* name;
  std::string (*run)(const Sha256Plan& plan);
};

constexpr std::array kChecks = {
    Check{"every length", check_every_length},       Check{"long messages", check_long_messages},
    Check{"every alignment", check_every_alignment}, Check{"every count", check_every_count},
    Check{"joining", check_joining_and_leaving},     Check{"length counter", check_length_counter},
};

Sha256Plan only(const Sha256Kernel& kernel) { return Sha256Plan::forced(kernel, {&kernel, 1}); }

std::string described(const Sha256Kernel& kernel) {
  return std::string(kernel.name) + " with " + std::to_string(kernel.lanes) + " lanes";
}

TEST(Sha256Kernels, AgreeWithOpenssl) {
  for (const Sha256Kernel& kernel : simd::sha256_kernels()) {
    SCOPED_TRACE(described(kernel));
    for (const Check& check : kChecks) EXPECT_EQ(check.run(only(kernel)), "") << check.name;
  }
}

TEST(Sha256Kernels, AgreeWithOpensslByTheMeasuredPlan) {
  const Sha256Plan plan = make_sha256_plan(std::nullopt, simd::sha256_kernels());
  for (const Check& check : kChecks) EXPECT_EQ(check.run(plan), "") << check.name;
}

constexpr Sha256Constants with_wrong_constant() {
  Sha256Constants constants = kSha256Constants;
  constants[37] ^= 1U << 9;
  return constants;
}
alignas(64) [[maybe_unused]] constexpr Sha256Constants kWrongConstants = with_wrong_constant();

const std::vector<Sha256Kernel> kWrongKernels = {
#if defined(__x86_64__)
    Sha256Kernel{"sha-ni", 2, compress_sha_ni<2, kWrongConstants>},
    Sha256Kernel{"sha-ni", 3, compress_sha_ni<3, kWrongConstants>},
    Sha256Kernel{"sha-ni", 4, compress_sha_ni<4, kWrongConstants>},
    Sha256Kernel{"avx2", 8, compress_avx2<kWrongConstants>},
    Sha256Kernel{"avx512", 8, compress_avx512_half<kWrongConstants>},
    Sha256Kernel{"avx512", 16, compress_avx512<kWrongConstants>},
#elif defined(TZMARK_HAS_SHA2_KERNELS)
    Sha256Kernel{"sha2", 2, compress_sha2<2, kWrongConstants>},
    Sha256Kernel{"sha2", 3, compress_sha2<3, kWrongConstants>},
    Sha256Kernel{"sha2", 4, compress_sha2<4, kWrongConstants>},
#endif
};

TEST(Sha256Kernels, EachCheckFindsAWrongConstant) {
  for (const Sha256Kernel& right : simd::sha256_kernels().subspan(1)) {
    SCOPED_TRACE(described(right));
    const auto wrong = std::ranges::find_if(kWrongKernels, [&](const Sha256Kernel& kernel) {
      return kernel.name == right.name && kernel.lanes == right.lanes;
    });
    ASSERT_NE(wrong, kWrongKernels.end());
    for (const Check& check : kChecks) EXPECT_NE(check.run(only(*wrong)), "") << check.name;
  }
}

TEST(UpdateSideBySide, TakesAnyNumberOfParts) {
  update_side_by_side(std::span<const Sha256Part>());
  const std::vector<std::byte> bytes = random_bytes(3000, 10);
  for (const std::size_t count : {63U, 64U, 65U, 500U}) {
    std::vector<std::span<const std::byte>> contents;
    for (std::size_t i = 0; i < count; ++i) contents.push_back(std::span(bytes).first(i * 7 % 3000));
    EXPECT_EQ(first_wrong(sha256_plan(), contents), -1) << count;
  }
}

TEST(UpdateSideBySide, AllocatesNothingForUpTo64Parts) {
  const std::vector<std::byte> bytes = random_bytes(8192, 11);
  for (const Sha256Kernel& kernel : simd::sha256_kernels()) {
    const Sha256Plan plan = only(kernel);
    std::vector<Sha256> hashes(65);
    std::vector<Sha256Part> parts;
    for (std::size_t i = 0; i < hashes.size(); ++i) parts.push_back({&hashes[i], std::span(bytes).first(i * 100)});
    const std::uint64_t before = allocations;
    update_side_by_side(plan, std::span(parts).first(64));
    EXPECT_EQ(allocations, before) << described(kernel);
  }
}

TEST(UpdateSideBySide, RunsTheKernelOfAName) {
  const std::vector<std::byte> bytes = random_bytes(1000, 13);
  const std::vector<std::string_view> names = tzmark::sha256_kernels();
  ASSERT_EQ(names.front(), "none");
  EXPECT_THAT(names, testing::Contains(sha256_kernel()));
  EXPECT_EQ(sha256_lanes() == 1, sha256_kernel() == "none");
  for (const std::string_view name : names) {
    std::vector<Sha256> hashes(5);
    std::vector<Sha256Part> parts;
    parts.reserve(hashes.size());
    for (Sha256& hash : hashes) parts.push_back({&hash, bytes});
    tzmark::update_side_by_side(parts, name);
    for (Sha256& hash : hashes) EXPECT_EQ(hash.finish(), sha256(bytes)) << name;
  }
  EXPECT_THROW(tzmark::update_side_by_side({}, "sse2"), Error);
}

TEST(UpdateSideBySide, ThreadsShareOneChoice) {
  const std::vector<std::byte> bytes = random_bytes(100'000, 12);
  const std::vector<std::span<const std::byte>> contents(20, bytes);
  std::array<int, 4> wrong;
  std::array<const Sha256Plan*, 4> plans;
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    threads.emplace_back([&, i] {
      plans[i] = &sha256_plan();
      wrong[i] = first_wrong(*plans[i], contents);
    });
  }
  threads.clear();
  EXPECT_THAT(wrong, ElementsAre(-1, -1, -1, -1));
  EXPECT_THAT(plans, testing::Each(&sha256_plan()));
}

std::uint64_t counted_blocks = 0;

// A kernel of 16 lanes that hashes nothing, and counts the blocks of a lane.
void count_blocks(std::uint32_t* const*, const std::byte* const*, std::size_t blocks) { counted_blocks += blocks; }

TEST(UpdateSideBySide, KeepsLanesFull) {
  constexpr Sha256Kernel kCounting = {"counting", 16, count_blocks};
  const std::vector<std::byte> bytes(4096 * kSha256BlockBytes);
  std::mt19937_64 random(14);
  for (std::size_t count = 1; count <= 64; ++count) {
    for (const char* const lengths : {"equal", "random", "one long"}) {
      std::vector<Sha256> hashes(count);
      std::vector<Sha256Part> parts;
      std::size_t longest = 0, sum = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t blocks = lengths[0] == 'e'   ? 4096
                                   : lengths[0] == 'r' ? 1 + random() % 4096
                                   : i == count / 2    ? 4096
                                                       : 64;
        longest = std::max(longest, blocks);
        sum += blocks;
        parts.push_back({&hashes[i], std::span(bytes).first(blocks * kSha256BlockBytes)});
      }
      counted_blocks = 0;
      update_side_by_side(only(kCounting), parts);
      // No order of messages takes fewer.
      const std::size_t least = std::max(longest, (sum + 15) / 16);
      if (count > 1) {
        EXPECT_GE(counted_blocks, least) << count;
      }
      EXPECT_LE(counted_blocks, least + least / 20) << count << " messages, " << lengths;
    }
  }
}

// Kernels that exist in name only, for plans.
constexpr std::array kNamed = {
    Sha256Kernel{"none", 1, nullptr},   Sha256Kernel{"sha-ni", 2, nullptr}, Sha256Kernel{"sha-ni", 3, nullptr},
    Sha256Kernel{"sha-ni", 4, nullptr}, Sha256Kernel{"avx2", 8, nullptr},   Sha256Kernel{"avx512", 16, nullptr},
};

// What the plan runs for 1 to 16 messages: "none", or the kernel's name with the number of messages of all lanes.
std::vector<std::string> steps(const Sha256Plan& plan) {
  std::vector<std::string> texts;
  for (std::size_t live = 1; live <= kMaxSha256Lanes; ++live) {
    const Sha256Plan::Step& step = plan.step(live);
    texts.push_back(std::string(step.kernel.name) + " " + std::to_string(step.messages) + "/" +
                    std::to_string(step.kernel.lanes));
  }
  return texts;
}

// GB/s of each kernel with full lanes, as seconds per block in every lane.
std::vector<double> seconds(const std::vector<double>& rates) {
  std::vector<double> times;
  for (std::size_t i = 0; i < rates.size(); ++i) times.push_back(kNamed[i].lanes * 64.0 / (rates[i] * 1e9));
  return times;
}

TEST(Sha256Plan, TakesTheFastestForEachNumberOfMessages) {
  // Zen 5: pays from 13 messages on, of which 4 by SHA-NI run at 3.5.
  const Sha256Plan zen5 = Sha256Plan::fastest(kNamed, seconds({2.0, 2.9, 3.4, 3.55, 1.8, 4.6}));
  EXPECT_THAT(steps(zen5), ElementsAre("none 1/1", "sha-ni 2/2", "sha-ni 3/3", "sha-ni 4/4", "sha-ni 4/4", "sha-ni 4/4",
                                       "sha-ni 4/4", "sha-ni 4/4", "sha-ni 4/4", "sha-ni 4/4", "sha-ni 4/4",
                                       "sha-ni 4/4", "avx512 13/16", "avx512 14/16", "avx512 15/16", "avx512 16/16"));
  EXPECT_EQ(zen5.name(), "avx512");
  EXPECT_EQ(zen5.lanes(), 16U);
  // More messages than lanes.
  EXPECT_EQ(zen5.step(1000).messages, 16U);
  // 3.55 is more than 0.7 of 4.6, and so is 3.4, if noise hides what the fourth stream gains.
  EXPECT_EQ(zen5.few_lanes(), 4U);
  EXPECT_EQ(Sha256Plan::fastest(kNamed, seconds({2.0, 2.9, 3.4, 3.41, 1.8, 4.6})).few_lanes(), 4U);
}

TEST(Sha256Plan, LeavesOutWhatIsSlower) {
  // Ice Lake without AVX-512: interleaving gains too little, and AVX2 is slower than one stream.
  const Sha256Plan none = Sha256Plan::fastest(std::span(kNamed).first(5), seconds({2.0, 2.04, 2.05, 2.05, 1.6}));
  EXPECT_THAT(steps(none), testing::Each("none 1/1"));
  EXPECT_EQ(none.name(), "none");
  EXPECT_EQ(none.lanes(), 1U);
  EXPECT_EQ(none.few_lanes(), 1U);
  // Without SHA-NI, lanes pay from few messages on.
  const std::array without = {kNamed[0], kNamed[5]};
  const Sha256Plan lanes = Sha256Plan::fastest(without, std::array{64 / 0.45e9, 16 * 64 / 3.5e9});
  EXPECT_EQ(lanes.step(2).messages, 1U);
  EXPECT_EQ(lanes.step(3).messages, 3U);
  EXPECT_EQ(lanes.step(3).kernel.lanes, 16U);
  EXPECT_EQ(lanes.few_lanes(), 16U);
}

TEST(Sha256Plan, ForcedKernelRunsFromTwoMessagesOn) {
  const Sha256Plan sha_ni = make_sha256_plan("sha-ni", kNamed);
  EXPECT_THAT(steps(sha_ni), testing::Contains("sha-ni 4/4").Times(13));
  EXPECT_EQ(sha_ni.step(1).kernel.name, "none");
  EXPECT_EQ(sha_ni.step(2).kernel.lanes, 2U);
  EXPECT_EQ(sha_ni.step(3).kernel.lanes, 3U);
  const Sha256Plan avx2 = make_sha256_plan("avx2", kNamed);
  EXPECT_EQ(avx2.step(2).kernel.lanes, 8U);
  EXPECT_EQ(avx2.step(9).messages, 8U);
  EXPECT_EQ(avx2.lanes(), 8U);
  EXPECT_EQ(avx2.few_lanes(), 8U);
  EXPECT_EQ(make_sha256_plan("avx512", kNamed).name(), "avx512");
  EXPECT_THAT(steps(make_sha256_plan("none", kNamed)), testing::Each("none 1/1"));
}

TEST(Sha256Plan, RefusesWhatIsNotThere) {
  const auto refused = [](const char* forced,
                          std::span<const Sha256Kernel> kernels) -> std::pair<ErrorCode, std::string> {
    try {
      make_sha256_plan(forced, kernels);
    } catch (const Error& error) {
      return {error.code(), error.message()};
    }
    return {};
  };
  for (const char* const unknown : {"", "avx", "AVX2", "none ", "sha-ni,avx2"}) {
    const auto [code, message] = refused(unknown, kNamed);
    EXPECT_EQ(code, ErrorCode::kUsage) << unknown;
    EXPECT_THAT(message, HasSubstr('"' + std::string(unknown) + '"'));
  }
  for (const char* const lacking : {"avx2", "avx512", "sha-ni", "sha2"}) {
    const auto [code, message] = refused(lacking, std::span(kNamed).first(1));
    EXPECT_EQ(code, ErrorCode::kUnavailable);
    EXPECT_THAT(message, HasSubstr(lacking));
  }
}

TEST(Sha256Plan, MeasuresEveryKernel) {
  const std::vector<double> measured = measure_sha256(simd::sha256_kernels());
  ASSERT_EQ(measured.size(), simd::sha256_kernels().size());
  // Between 10 MB/s and 100 GB/s per lane.
  EXPECT_THAT(measured, testing::Each(testing::AllOf(testing::Gt(64 / 100e9), testing::Lt(64 / 10e6))));
}

}  // namespace
}  // namespace tzmark::simd
