// Every Salsa20 kernel of the machine against libsodium, and kernels with one wrong constant, which each check must
// find.
#include "simd/salsa20.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sodium.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tzmark/error.h"

namespace tzmark::simd {
namespace {

using Bytes = std::vector<unsigned char>;

Bytes random_bytes(std::mt19937_64& random, std::size_t size) {
  Bytes bytes(size + 8);
  for (std::size_t at = 0; at < size; at += 8) {
    const std::uint64_t value = random();
    std::memcpy(bytes.data() + at, &value, sizeof value);
  }
  bytes.resize(size);
  return bytes;
}

// One key and nonce, and how kernel and libsodium differ with it: in words, or empty.
class Difference {
 public:
  explicit Difference(std::uint64_t seed) : random(seed), key_(random_bytes(random, kSalsa20KeyBytes)) {
    nonce_ = random_bytes(random, kSalsa20NonceBytes);
  }

  // Compares size bytes of a message at two addresses, of which the lowest bits are given; in place if they are equal.
  std::string of(const Salsa20Kernel& kernel, std::uint64_t block, std::size_t size, std::size_t in_offset = 0,
                 std::size_t out_offset = 64, bool in_place = false) {
    constexpr unsigned char kGuard = 0xa5;
    constexpr std::size_t kRoom = 192;
    if (message_.size() < size) message_ = random_bytes(random, size);
    Bytes expected(size + 1);
    crypto_stream_salsa20_xor_ic(expected.data(), message_.data(), size, nonce_.data(), block, key_.data());

    Bytes from(size + kRoom, kGuard);
    Bytes to(size + kRoom, kGuard);
    unsigned char* const in = aligned(from) + in_offset;
    unsigned char* const out = in_place ? in : aligned(to) + out_offset;
    std::copy_n(message_.begin(), size, in);
    salsa20_xor(kernel, std::span(key_).first<kSalsa20KeyBytes>(), std::span(nonce_).first<kSalsa20NonceBytes>(), block,
                {in, size}, {out, size});

    const std::string where = std::to_string(size) + " bytes from block " + std::to_string(block);
    if (!std::equal(out, out + size, expected.begin())) return where + " differ";
    Bytes& written = in_place ? from : to;
    const auto begin = static_cast<std::size_t>(out - written.data());
    const auto is_guard = [](unsigned char byte) { return byte == kGuard; };
    if (!std::all_of(written.data(), written.data() + begin, is_guard) ||
        !std::all_of(written.data() + begin + size, written.data() + written.size(), is_guard)) {
      return where + " wrote outside of the message";
    }
    if (!in_place && !std::equal(message_.begin(), message_.begin() + static_cast<std::ptrdiff_t>(size), in)) {
      return where + " changed the source";
    }
    return {};
  }

  std::mt19937_64 random;

 private:
  static unsigned char* aligned(Bytes& bytes) {
    return bytes.data() + (64 - reinterpret_cast<std::uintptr_t>(bytes.data()) % 64) % 64;
  }

  Bytes key_, nonce_;
  Bytes message_{0};
};

std::string check_all_lengths(const Salsa20Kernel& kernel) {
  Difference difference(1);
  for (std::size_t size = 0; size <= 4200; ++size) {
    if (std::string found = difference.of(kernel, size, size); !found.empty()) return found;
  }
  return {};
}

std::string check_random_lengths(const Salsa20Kernel& kernel) {
  Difference difference(2);
  for (int i = 0; i < 8; ++i) {
    const std::size_t size = i == 0 ? std::size_t{8} << 20 : difference.random() % (std::size_t{8} << 20);
    const std::uint64_t block = difference.random();
    if (std::string found = difference.of(kernel, block, size); !found.empty()) return found;
  }
  return {};
}

std::string check_addresses(const Salsa20Kernel& kernel) {
  Difference difference(3);
  for (std::size_t in = 0; in < 64; ++in) {
    for (std::size_t out = 0; out < 64; ++out) {
      const std::size_t size = 1024 + difference.random() % 1200;
      if (std::string found = difference.of(kernel, 0, size, in, out); !found.empty()) return found;
    }
  }
  return {};
}

std::string check_in_place(const Salsa20Kernel& kernel) {
  Difference difference(4);
  for (int i = 0; i < 4000; ++i) {
    const std::size_t size = difference.random() % 4200;
    const std::size_t offset = difference.random() % 64;
    if (std::string found = difference.of(kernel, 7, size, offset, offset, true); !found.empty()) return found;
  }
  return {};
}

// The low word of the counter overflows in each lane of a group, in its first lane, and in a tail; the whole counter
// overflows, too.
std::string check_counters(const Salsa20Kernel& kernel) {
  Difference difference(5);
  for (const std::uint64_t high : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{0xffffffff}}) {
    for (std::uint64_t before = 0; before <= 40; ++before) {
      const std::uint64_t block = (high << 32) + 0x100000000 - before;
      for (const std::size_t size : {std::size_t{1024}, std::size_t{3000}}) {
        if (std::string found = difference.of(kernel, block, size); !found.empty()) return found;
      }
    }
  }
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t block = difference.random();
    if (std::string found = difference.of(kernel, block, 2500); !found.empty()) return found;
  }
  return {};
}

struct Salsa20Check {
  const char* name;
  std::string (*difference)(const Salsa20Kernel&);
};
constexpr std::array kSalsa20Checks = {
    Salsa20Check{"AllLengths", check_all_lengths}, Salsa20Check{"RandomLengths", check_random_lengths},
    Salsa20Check{"Addresses", check_addresses}, Salsa20Check{"InPlace", check_in_place},
    Salsa20Check{"Counters", check_counters}};

#if defined(__x86_64__)
struct WrongRotation1 : Salsa20Constants {
  static constexpr int kRotation1 = 8;
};
struct WrongRotation2 : Salsa20Constants {
  static constexpr int kRotation2 = 8;
};
struct WrongRotation3 : Salsa20Constants {
  static constexpr int kRotation3 = 12;
};
struct WrongRotation4 : Salsa20Constants {
  static constexpr int kRotation4 = 17;
};
struct WrongSigma0 : Salsa20Constants {
  static constexpr std::uint32_t kSigma[4] = {0x61707864, 0x3320646e, 0x79622d32, 0x6b206574};
};
// The second and third word of Salsa20 with keys of 16 bytes.
struct WrongSigma1 : Salsa20Constants {
  static constexpr std::uint32_t kSigma[4] = {0x61707865, 0x3120646e, 0x79622d32, 0x6b206574};
};
struct WrongSigma2 : Salsa20Constants {
  static constexpr std::uint32_t kSigma[4] = {0x61707865, 0x3320646e, 0x79622d36, 0x6b206574};
};
struct WrongSigma3 : Salsa20Constants {
  static constexpr std::uint32_t kSigma[4] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206575};
};

template <class... Wrong>
std::vector<Salsa20Kernel> planted_in(const Salsa20Kernel& kernel) {
  if (kernel.name == "avx2") return {{"avx2", kernel.group_bytes, salsa20_xor_avx2<Wrong>}...};
  if (kernel.name == "avx512") return {{"avx512", kernel.group_bytes, salsa20_xor_avx512<Wrong>}...};
  return {};
}

std::vector<Salsa20Kernel> planted_kernels() {
  std::vector<Salsa20Kernel> all;
  for (const Salsa20Kernel& kernel : salsa20_kernels()) {
    const auto planted = planted_in<WrongRotation1, WrongRotation2, WrongRotation3, WrongRotation4, WrongSigma0,
                                    WrongSigma1, WrongSigma2, WrongSigma3>(kernel);
    all.insert(all.end(), planted.begin(), planted.end());
  }
  return all;
}

void without_carry(const Salsa20Input& input, std::uint64_t block, const unsigned char* in, unsigned char* out,
                   std::size_t groups) {
  for (; groups != 0; --groups, ++block, in += kSalsa20BlockBytes, out += kSalsa20BlockBytes) {
    crypto_stream_salsa20_xor_ic(out, in, kSalsa20BlockBytes, reinterpret_cast<const unsigned char*>(input.nonce),
                                 block & 0xffffffff, reinterpret_cast<const unsigned char*>(input.key));
  }
}
#endif

class Salsa20Test : public ::testing::TestWithParam<Salsa20Check> {};

TEST_P(Salsa20Test, EveryKernelIsLibsodium) {
  for (const Salsa20Kernel& kernel : salsa20_kernels()) EXPECT_EQ(GetParam().difference(kernel), "") << kernel.name;
}

#if defined(__x86_64__)
TEST_P(Salsa20Test, FindsOneWrongConstant) {
  const std::vector<Salsa20Kernel> planted = planted_kernels();
  EXPECT_EQ(planted.size(), 8 * (salsa20_kernels().size() - 1));
  for (std::size_t i = 0; i < planted.size(); ++i) {
    EXPECT_NE(GetParam().difference(planted[i]), "") << planted[i].name << ", constant " << i % 8;
  }
}

TEST(Salsa20Counters, FindALostHighWord) {
  EXPECT_NE(check_counters({"planted", kSalsa20BlockBytes, without_carry}), "");
}
#endif

INSTANTIATE_TEST_SUITE_P(Checks, Salsa20Test, ::testing::ValuesIn(kSalsa20Checks),
                         [](const auto& instance) { return instance.param.name; });

TEST(Salsa20Choice, TakesTheForcedKernel) {
  for (const Salsa20Kernel& kernel : salsa20_kernels()) {
    EXPECT_EQ(choose_salsa20_kernel(kernel.name, salsa20_kernels()).name, kernel.name);
  }
}

TEST(Salsa20Choice, MeasuresUnlessForced) {
  // Libsodium that runs 50 times as often loses to libsodium.
  constexpr XorSalsa20Groups kSlow = [](const Salsa20Input& input, std::uint64_t block, const unsigned char* in,
                                        unsigned char* out, std::size_t groups) {
    for (int i = 0; i < 50; ++i) salsa20_kernels()[0].xor_groups(input, block, in, out, groups);
  };
  for (const bool slow_first : {true, false}) {
    std::vector<Salsa20Kernel> kernels = {{"fast", kSalsa20BlockBytes, salsa20_kernels()[0].xor_groups},
                                          {"slow", kSalsa20BlockBytes, kSlow}};
    if (slow_first) std::swap(kernels[0], kernels[1]);
    EXPECT_EQ(choose_salsa20_kernel(std::nullopt, kernels).name, "fast");
    EXPECT_EQ(choose_salsa20_kernel("sha-ni", kernels).name, "fast") << "says nothing about Salsa20";
  }
}

TEST(Salsa20Choice, RefusesWhatIsNotThere) {
  const auto code_of = [](std::string_view forced) {
    try {
      choose_salsa20_kernel(forced, salsa20_kernels().first(1));
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode{};
  };
  EXPECT_EQ(code_of("avx2"), ErrorCode::kUnavailable);
  EXPECT_EQ(code_of("avx512"), ErrorCode::kUnavailable);
  EXPECT_EQ(code_of("AVX2"), ErrorCode::kUsage);
  EXPECT_EQ(code_of(""), ErrorCode::kUsage);
}

}  // namespace
}  // namespace tzmark::simd
