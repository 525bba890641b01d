// Unusual values; see odd_values.h.
#include "mutation/odd_values.h"

#include <algorithm>

namespace tzmark::conformance::mutation {
namespace {

std::uint64_t mask_of(std::size_t size_bytes) {
  return size_bytes >= 8 ? UINT64_MAX : (std::uint64_t{1} << 8 * size_bytes) - 1;
}

std::uint64_t any_number(std::uint64_t old, std::size_t size_bytes, const std::vector<std::uint64_t>& others,
                         Random& random) {
  const std::uint64_t bits = 8 * size_bytes;
  switch (random.below(16)) {
    case 12:
    case 13:
    case 14:
    case 15: {
      // Right in a type that is too narrow, and wrong above it.
      const auto bit = random.pick<std::uint64_t>({7, 8, 15, 16, 31, 32, 53, 63});
      return bit < bits ? old + (std::uint64_t{1} << bit) : old + (std::uint64_t{1} << (bits - 1));
    }
    case 0:
      return old + 1;
    case 1:
      return old - 1;
    case 2:
      return old ^ (std::uint64_t{1} << random.below(bits));
    case 3:
      return 0;
    case 4:
      return old + random.pick<std::uint64_t>({2, 4, 8, 16, 64, 1024, 4096});
    case 5:
      return old - random.pick<std::uint64_t>({2, 4, 8, 16, 64, 1024, 4096});
    case 6:
      return mask_of(size_bytes) - random.pick<std::uint64_t>({0, 1, 7, 8, 63, 64});
    case 7:
      return std::uint64_t{1} << (bits - 1);
    case 8:
      return old + (std::uint64_t{1} << bits / 2);
    case 9:
      return random.below(10);
    case 10:
      return others.empty() ? random.below(256) : random.pick(others);
    default:
      return random.next() >> random.below(64);
  }
}

std::string joined(std::initializer_list<std::string> parts) {
  std::string text;
  for (const std::string& part : parts) text += part;
  return text;
}

}  // namespace

std::uint64_t odd_number(std::uint64_t old, std::size_t size_bytes, const std::vector<std::uint64_t>& others,
                         Random& random) {
  const std::uint64_t mask = mask_of(size_bytes);
  const std::uint64_t number = any_number(old, size_bytes, others, random) & mask;
  return number == (old & mask) ? (old ^ 1) & mask : number;
}

std::string odd_name(const std::string& old, const std::vector<std::string>& others, Random& random) {
  static const std::vector<std::string> odd = {
      "",
      "\x1e",
      "\x1e[]",
      "\x1e{}",
      "\x1e[1]",
      "\x1e[-1]",
      "\x1e[0.5]",
      "\x1e[1e3]",
      "\x1e[01]",
      "\x1e[null]",
      "\x1e[true]",
      "\x1e[[0]]",
      "\x1e[\"a\",{}]",
      "\x1e[\"a\"",
      "\x1e[\"a\"]x",
      "\x1e[\"a\"] ",
      "\x1e[\"a\",\n0]",
      "\x1e\r[\"a\"]",
      "\x1e[\"a\"]\n",
      "\x1e[ \"a\" , 0 ]",
      "\x1e[\"a\",0]",
      "\x1e[\"a\",\"0\"]",
      "\x1e[\"\\u00e4\",1]",
      "\x1e[\"\\ud800\"]",
      "\x1e[18446744073709551615]",
      "\x1e[18446744073709551616]",
      std::string("\x1e[\"a\"]\0", 7),
      std::string("a\0b", 3),
      "a.b",
      "a",
      "w",
      "\xc3\xa4",
      "a\xcc\x88",
      "\xc3",
      "\xc0\x80",
      "\xed\xa0\x80",
      "\xf4\x90\x80\x80",
      "\xff\xfe",
      "\xf0\x9f\x98\x80",
  };
  const std::string other = others.empty() ? "w" : random.pick(others);
  switch (random.below(10)) {
    case 0:
      return other;
    case 1:  // the same path, serialized as an array
      return other.starts_with('\x1e') ? other + " " : joined({"\x1e[\"", other, "\"]"});
    case 2:  // a path below another's
      return other.ends_with(']') ? other.substr(0, other.size() - 1) + ",0]" : joined({"\x1e[\"", other, "\",0]"});
    case 3:
      return other.ends_with(']') ? other.substr(0, other.size() - 1) + ",\"x\"]"
                                  : joined({"\x1e[\"", other, "\",\"x\"]"});
    case 4:
      return std::string(random.pick<std::size_t>({255, 256, 257, 300, 4096}), 'n');
    case 5:
      return odd_bytes(old, random);
    default:
      return random.pick(odd);
  }
}

std::string odd_dtype(const std::string& old, Random& random) {
  static const std::vector<std::string> odd = {"<f4",
                                               ">f4",
                                               "<f2",
                                               "<f8",
                                               "<i8",
                                               "<i4",
                                               "<i2",
                                               "|i1",
                                               "|u1",
                                               "|b1",
                                               "<u2",
                                               "<u4",
                                               "<u8",
                                               "<c8",
                                               "<c16",
                                               ">i8",
                                               ">c16",
                                               "<u1",
                                               ">b1",
                                               "|f4",
                                               "=f4",
                                               "f4",
                                               "float32",
                                               "uint8",
                                               "",
                                               "<",
                                               "<f",
                                               "<f3",
                                               "<F4",
                                               "<f04",
                                               "<f16",
                                               "|O",
                                               "|O8",
                                               "|S5",
                                               "|S0",
                                               "|S05",
                                               "<U3",
                                               "<U0",
                                               "<M8[ns]",
                                               "<m8",
                                               "<M8[25s]",
                                               "<M8[xs]",
                                               "<M8[]",
                                               "<M4",
                                               "<V4",
                                               "|V1",
                                               "<f4 ",
                                               " <f4",
                                               "(2,)<f4",
                                               "<f4,<i2",
                                               "\xff\xfe",
                                               std::string("<V2\0torch.bfloat16", 18),
                                               std::string("|V2\0torch.bfloat16", 18),
                                               std::string("<V4\0torch.bfloat16", 18),
                                               std::string("<V1\0torch.bfloat16", 18),
                                               std::string("<V4\0torch.complex32", 19),
                                               std::string("<V2\0torch.complex32", 19),
                                               std::string("|V1\0torch.float8_e5m2", 21),
                                               std::string("<V1\0torch.float8_e4m3fn", 23),
                                               std::string("<V2\0torch.float8_e5m2", 21),
                                               std::string("|V1\0torch.bits8", 15),
                                               std::string("<V2\0torch.bits16", 16),
                                               std::string("<V4\0torch.qint32", 16),
                                               std::string("<V2\0os.system", 13),
                                               std::string("<V2\0torch.", 10),
                                               std::string("<V2\0bfloat16", 12),
                                               std::string("<V2\0\0torch.bfloat16", 19),
                                               std::string("<V2\0torch.bfloat16\0", 19),
                                               std::string("<f2\0torch.bfloat16", 18),
                                               std::string(">V2\0torch.bfloat16", 18),
                                               std::string("<V02\0torch.bfloat16", 19),
                                               std::string("<V\0torch.bfloat16", 17),
                                               std::string("\0", 1),
                                               "<V2torch.bfloat16"};
  return random.one_in(6) && !old.empty() ? odd_bytes(old, random) : random.pick(odd);
}

std::vector<std::uint64_t> odd_shape(const std::vector<std::uint64_t>& old, Random& random) {
  std::vector<std::uint64_t> shape = old;
  switch (random.below(13)) {
    case 0:
      std::ranges::reverse(shape);
      break;
    case 1:
      shape.push_back(1);
      break;
    case 2:
      shape.insert(shape.begin(), random.pick<std::size_t>({31, 32, 33, 64}) - std::min<std::size_t>(shape.size(), 31),
                   1);
      break;
    case 3:
      if (!shape.empty()) shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(random.below(shape.size())));
      break;
    case 4:
      shape.push_back(0);
      break;
    case 5:
      return {k32 - 1, k32 - 1};
    case 6:  // with four bytes per element, the product is a multiple of 2^64
      return {std::uint64_t{1} << 31, std::uint64_t{1} << 31};
    case 7:
      return {std::uint64_t{1} << 31, std::uint64_t{1} << 31, 0};
    case 8:
      return {k32, random.pick<std::uint64_t>({0, 1, 2, k32, k32 - 1})};
    case 9:
      return {};
    case 10:
      return {random.below(5), random.below(5)};
    case 11:
      return {0};
    default:
      if (shape.empty()) return {1};
      {
        std::uint64_t& dim = shape[random.below(shape.size())];
        dim = odd_number(dim, random.pick<std::size_t>({1, 4, 8}), {}, random);
      }
  }
  return shape;
}

std::string odd_bytes(std::string old, Random& random) {
  if (old.empty()) return "\1";
  char& byte = old[random.below(old.size())];
  switch (random.below(5)) {
    case 0:
      byte = static_cast<char>(byte ^ (1 << random.below(8)));
      break;
    case 1:
      std::ranges::fill(old, random.pick<char>({0, 1, -1}));
      break;
    case 2:
      for (char& each : old) each = static_cast<char>(random.next());
      break;
    case 3:
      std::ranges::reverse(old);
      break;
    default:
      byte = random.pick<char>({0, 1, '\n', '\r', '"', '\\', 0x1e, 0x7f, -128, -64, -1});
  }
  return old;
}

std::string unusual_text(Random& random) {
  static const std::vector<std::string> texts = {
      "\xef\xbf\xbd", "\xf0\x9f\x98\x80", "<&>",   "\xe2\x80\xa8", "e\xcc\x81", "\xc3\xa9", "\x7f",
      "\xef\xbb\xbf", "\xf4\x8f\xbf\xbf", "\"\\/", "\t\n",         "a.b"};
  return random.pick(texts);
}

std::size_t unusual_name_bytes(Random& random) {
  return random.pick<std::size_t>(
      {126, 127, 128, 129, 254, 255, 256, 257, 511, 512, 1023, 1024, 4095, 4096, 4097, 32767, 32768, 65534, 65535});
}

std::uint64_t unusual_position(Random& random) {
  return random.pick<std::uint64_t>({0,       9,     10,      127,         128,     255,       256, 32767,
                                     32768,   65535, 65536,   k32 / 2 - 1, k32 / 2, k32 - 1,   k32, k32 + 1,
                                     k53 - 1, k53,   k53 + 1, k63 - 1,     k63,     UINT64_MAX});
}

std::uint64_t unusual_length(Random& random) {
  const std::uint64_t bits = random.one_in(32)  ? random.pick<std::uint64_t>({18, 19, 20, 20})
                             : random.one_in(6) ? 14 + random.below(4)
                                                : 7 + random.below(7);
  const auto count = random.pick<std::uint64_t>({1, 1, 1, 2, 3});
  return (count << bits) + random.pick<std::uint64_t>({UINT64_MAX, 0, 1, 5});
}

std::uint64_t unusual_dim(std::uint64_t most, Random& random) {
  return std::min(most, random.pick<std::uint64_t>({127,     128,       255,     256,         257,     32767,   32768,
                                                    65535,   65536,     65537,   k32 / 2 - 1, k32 / 2, k32 - 1, k32,
                                                    k32 + 1, k32 + 256, k53 - 1, k53,         k53 + 1, k63 / 2}));
}

std::uint16_t unusual_module_index(Random& random) {
  return random.pick<std::uint16_t>({0, 1, 126, 127, 128, 255, 256, 32767, 32768, 65534, 65535});
}

std::size_t unusual_tensor_count(Random& random) {
  if (!random.one_in(6)) return random.pick<std::size_t>({15, 16, 17, 31, 32});
  return random.pick<std::size_t>({126, 127, 128, 254, 255, 256, 257});
}

std::string odd_flags(std::string old, Random& random) {
  constexpr std::uint64_t kKnown = 4;
  if (old.empty() || random.one_in(2)) return odd_bytes(std::move(old), random);
  old.front() = static_cast<char>(old.front() ^ (1 << random.below(kKnown)));
  return old;
}

}  // namespace tzmark::conformance::mutation
