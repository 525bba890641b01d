// CRC32 and CRC-64 by ISA-L, the former combined by zlib; SHA-256 by OpenSSL.
#include "bytes/digest.h"

#include <fmt/format.h>
#include <isa-l/crc.h>
#include <isa-l/crc64.h>
#include <zlib.h>

#include "bytes/sha256_context.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tzmark {
namespace {

// ISA-L leaves the upper halves of the vector registers dirty, which slows the SSE code of SHA-256 that runs next.
#if defined(__x86_64__)
const bool kHasAvx = __builtin_cpu_supports("avx") != 0;
__attribute__((target("avx"))) void zero_upper_halves() noexcept { _mm256_zeroupper(); }
void clear_upper_halves() noexcept {
  if (kHasAvx) zero_upper_halves();
}
#else
void clear_upper_halves() noexcept {}
#endif

// CRC-64/XZ as a polynomial over GF(2), the highest power in the lowest bit.
constexpr std::uint64_t kCrc64Polynomial = 0xC96C5795D7870F42;
constexpr std::uint64_t kCrc64One = std::uint64_t{1} << 63;

constexpr std::uint64_t crc64_multiply(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  for (; a != 0; a <<= 1) {
    if ((a & kCrc64One) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? kCrc64Polynomial : 0);
  }
  return product;
}

// Returns x^(8 * bytes), by which appending that many bytes multiplies a CRC.
std::uint64_t crc64_shift(std::uint64_t bytes) {
  std::uint64_t square = kCrc64One >> 8;
  std::uint64_t shift = kCrc64One;
  for (; bytes != 0; bytes >>= 1) {
    if ((bytes & 1) != 0) shift = crc64_multiply(shift, square);
    square = crc64_multiply(square, square);
  }
  return shift;
}

}  // namespace

std::uint32_t crc32(std::uint32_t seed, std::span<const std::byte> bytes) noexcept {
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  const std::uint32_t result = crc32_gzip_refl(seed, data, bytes.size());
  clear_upper_halves();
  return result;
}

std::uint32_t crc32_combine(std::uint32_t a, std::uint32_t b, std::uint64_t b_bytes) noexcept {
  return static_cast<std::uint32_t>(::crc32_combine(a, b, static_cast<z_off_t>(b_bytes)));
}

std::uint64_t crc64(std::uint64_t seed, std::span<const std::byte> bytes) noexcept {
  const std::uint64_t result =
      crc64_ecma_refl(seed, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  clear_upper_halves();
  return result;
}

std::uint64_t crc64_combine(std::uint64_t a, std::uint64_t b, std::uint64_t b_bytes) noexcept {
  return crc64_multiply(crc64_shift(b_bytes), a) ^ b;
}

std::uint64_t crc64_of_zeros(std::uint64_t bytes) noexcept {
  return ~crc64_multiply(crc64_shift(bytes), ~std::uint64_t{0});
}

// None of OpenSSL's three functions fails: they return 1 whatever they are given.
Sha256::Sha256() noexcept { reset(); }

void Sha256::reset() noexcept { SHA256_Init(&Sha256Access::context(*this)); }

void Sha256::update(std::span<const std::byte> bytes) noexcept {
  SHA256_Update(&Sha256Access::context(*this), bytes.data(), bytes.size());
}

Sha256Digest Sha256::finish() noexcept {
  Sha256Digest digest;
  SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), &Sha256Access::context(*this));
  reset();
  return digest;
}

Sha256Digest sha256(std::span<const std::byte> bytes) noexcept {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

std::string to_hex(std::span<const std::byte> bytes) {
  std::string hex;
  hex.reserve(bytes.size() * 2);
  for (const std::byte b : bytes) fmt::format_to(std::back_inserter(hex), "{:02x}", std::to_integer<unsigned>(b));
  return hex;
}

}  // namespace tzmark
