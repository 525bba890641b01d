// Tests of dtype strings.
#include "tzmark/dtype.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "bytes/utf8.h"
#include "testing/caught.h"

namespace tzmark {
namespace {

using namespace std::string_literals;
using test::caught;
using test::failure;

struct Plain {
  const char* code;
  const char* name;
  std::uint64_t item_bytes;
};

constexpr std::array kPlain = {Plain{"b1", "bool", 1},      Plain{"i1", "int8", 1},        Plain{"i2", "int16", 2},
                               Plain{"i4", "int32", 4},     Plain{"i8", "int64", 8},       Plain{"u1", "uint8", 1},
                               Plain{"u2", "uint16", 2},    Plain{"u4", "uint32", 4},      Plain{"u8", "uint64", 8},
                               Plain{"f2", "float16", 2},   Plain{"f4", "float32", 4},     Plain{"f8", "float64", 8},
                               Plain{"c8", "complex64", 8}, Plain{"c16", "complex128", 16}};

struct Opaque {
  const char* name;
  std::uint64_t item_bytes;
};

constexpr std::array kOpaque = {Opaque{"bfloat16", 2},        Opaque{"complex32", 4},      Opaque{"bits8", 1},
                                Opaque{"float8_e4m3fn", 1},   Opaque{"float8_e5m2", 1},    Opaque{"float8_e4m3fnuz", 1},
                                Opaque{"float8_e5m2fnuz", 1}, Opaque{"float8_e8m0fnu", 1}, Opaque{"float8__", 1}};

TEST(ParseDtype, PlainTypes) {
  for (const Plain& plain : kPlain) {
    for (const char order : {'<', '>'}) {
      const Dtype dtype = parse_dtype(order + std::string(plain.code));
      EXPECT_EQ(dtype, (Dtype{order + std::string(plain.code), plain.name, plain.item_bytes,
                              order == '>' && plain.item_bytes > 1, false}));
      EXPECT_FALSE(dtype.foreign());
    }
    const std::string without_order = "|" + std::string(plain.code);
    if (plain.item_bytes == 1) {
      EXPECT_EQ(parse_dtype(without_order), (Dtype{without_order, plain.name, 1, false, false}));
    } else {
      EXPECT_EQ(caught([&] { parse_dtype(without_order, 5); }), failure(ErrorCode::kDtypeUnknown, 5)) << without_order;
    }
  }
}

TEST(ParseDtype, OpaqueTypes) {
  for (const Opaque& opaque : kOpaque) {
    for (const char mark : {'<', '|'}) {
      const std::string wire = mark + "V"s + std::to_string(opaque.item_bytes) + "\0torch."s + opaque.name;
      if (mark == '|' && opaque.item_bytes > 1) {
        EXPECT_EQ(caught([&] { parse_dtype(wire, 5); }), failure(ErrorCode::kDtypeUnknown, 5)) << printable(wire);
      } else {
        EXPECT_EQ(parse_dtype(wire), (Dtype{wire, opaque.name, opaque.item_bytes, false, true})) << printable(wire);
      }
    }
  }
}

TEST(ParseDtype, ForeignTypes) {
  const std::vector<std::pair<std::string, std::uint64_t>> kForeign = {{"|S5", 5},
                                                                       {"<S1", 1},
                                                                       {"|S2147483647", 2147483647},
                                                                       {"<U3", 12},
                                                                       {">U3", 12},
                                                                       {"<U536870911", 2147483644},
                                                                       {"<M8", 8},
                                                                       {"<m8", 8},
                                                                       {"<M8[ns]", 8},
                                                                       {"<m8[s]", 8},
                                                                       {">M8[25s]", 8},
                                                                       {"<M8[as]", 8},
                                                                       {"<m8[2147483647s]", 8}};
  for (const auto& [wire, item_bytes] : kForeign) {
    const Dtype dtype = parse_dtype(wire);
    EXPECT_TRUE(dtype.foreign()) << wire;
    EXPECT_EQ(dtype.wire, wire);
    EXPECT_EQ(dtype.item_bytes, item_bytes) << wire;
    EXPECT_FALSE(dtype.opaque) << wire;
  }
  for (const char* unit : {"Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"}) {
    EXPECT_TRUE(parse_dtype("<m8[" + std::string(unit) + "]").foreign()) << unit;
  }
}

TEST(ParseDtype, RefusesWhatIsNoType) {
  for (const std::string& wire : {""s,
                                  "<"s,
                                  "f4"s,
                                  "float32"s,
                                  "=f4"s,
                                  "@f4"s,
                                  "<f"s,
                                  "<f4 "s,
                                  " <f4"s,
                                  "<<f4"s,
                                  "<f3"s,
                                  "<f16"s,
                                  "<b2"s,
                                  "<c4"s,
                                  "<i16"s,
                                  "<F4"s,
                                  "|O"s,
                                  "|O8"s,
                                  "<V4"s,
                                  "|V1"s,
                                  "|V0"s,
                                  "<i4,<f4"s,
                                  "(2,)<f4"s,
                                  "[('a','<f4')]"s,
                                  "<S"s,
                                  "<S0"s,
                                  "<S05"s,
                                  "<S-1"s,
                                  "<S+1"s,
                                  "<S 1"s,
                                  "<S1x"s,
                                  "<S2147483648"s,
                                  "<S4294967296"s,
                                  "<U"s,
                                  "<U0"s,
                                  "<U536870912"s,
                                  "<U1.0"s,
                                  "<M"s,
                                  "<M4"s,
                                  "<M88"s,
                                  "<M8[]"s,
                                  "<M8[ns"s,
                                  "<M8ns]"s,
                                  "<M8[xs]"s,
                                  "<M8[0s]"s,
                                  "<M8[05s]"s,
                                  "<M8[25]"s,
                                  "<M8[ns]x"s,
                                  "<M8[s/4]"s,
                                  "<m8[2147483648s]"s,
                                  "<m8[4294967296s]"s,
                                  "|V2\0torch.bfloat16"s,
                                  "|V4\0torch.complex32"s,
                                  "<f4\xc3\xa4"s,
                                  "torch.float32"s,
                                  "\n<f4"s}) {
    EXPECT_EQ(caught([&] { parse_dtype(wire, 42); }), failure(ErrorCode::kDtypeUnknown, 42)) << wire;
  }
}

TEST(ParseDtype, RefusesOpaqueTypesWithoutTheirSeparator) {
  for (const std::string& wire :
       {"\0"s, "\0torch.bfloat16"s, "<V\0torch.bfloat16"s, "V2\0torch.bfloat16"s, ">V2\0torch.bfloat16"s,
        "<f2\0torch.bfloat16"s, "<V02\0torch.bfloat16"s, "<V0\0torch.bfloat16"s, "<V2 \0torch.bfloat16"s,
        "<V-2\0torch.bfloat16"s, "<V99999999999999999999\0torch.bfloat16"s, "<V2\0torch.bfloat16\0"s,
        "<V2\0torch.\0bfloat16"s, "<V2\0\0torch.bfloat16"s}) {
    EXPECT_EQ(caught([&] { parse_dtype(wire, 42); }), failure(ErrorCode::kDtypeSeparator, 42)) << printable(wire);
  }
}

TEST(ParseDtype, RefusesUnknownOpaqueNames) {
  for (const std::string& wire :
       {"<V2\0"s, "<V2\0torch."s, "<V2\0torch"s, "<V2\0bfloat16"s, "<V2\0torch.bfloat16 "s, "<V2\0Torch.bfloat16"s,
        "<V2\0numpy.bfloat16"s, "<V2\0os.system"s, "<V2\0torch.bfloat"s, "<V1\0torch.float8_"s, "<V1\0torch.float8"s,
        "<V1\0torch.float8_e4m3-fn"s, "<V1\0torch.float8_e4 m3"s, "<V1\0torch.float8_\xc3\xa4"s, "<V4\0torch.float32"s,
        "<V1\0torch.quint8"s, "<V2\0torch.bits16"s, "<V2\0torch.torch.bfloat16"s}) {
    EXPECT_EQ(caught([&] { parse_dtype(wire, 42); }), failure(ErrorCode::kDtypeOpaqueName, 42)) << printable(wire);
  }
}

TEST(ParseDtype, RefusesOpaqueTypesOfAnotherSize) {
  for (const std::string& wire :
       {"<V1\0torch.bfloat16"s, "<V4\0torch.bfloat16"s, "<V20\0torch.bfloat16"s, "<V2\0torch.complex32"s,
        "<V2\0torch.bits8"s, "<V2\0torch.float8_e4m3fn"s, "<V4294967295\0torch.bfloat16"s}) {
    EXPECT_EQ(caught([&] { parse_dtype(wire, 42); }), failure(ErrorCode::kDtypeOpaqueSize, 42)) << printable(wire);
  }
}

// Says which of the short strings without NUL are dtypes, in another way than the code under test.
bool is_short_dtype(const std::string& wire, const std::set<std::string>& plain) {
  if (plain.contains(wire)) return true;
  if (wire.size() < 3 || std::string("<>|").find(wire[0]) == std::string::npos) return false;
  if (wire[1] == 'M' || wire[1] == 'm') return wire.substr(2) == "8";
  if (wire[1] != 'S' && wire[1] != 'U') return false;
  return wire[2] != '0' && wire.find_first_not_of("0123456789", 2) == std::string::npos;
}

TEST(ParseDtype, EveryShortString) {
  std::set<std::string> plain;
  for (const Plain& type : kPlain) {
    plain.insert("<" + std::string(type.code));
    plain.insert(">" + std::string(type.code));
    if (type.item_bytes == 1) plain.insert("|" + std::string(type.code));
  }
  constexpr std::string_view kAlphabet = "<>|=biufcSUMmVO[s]0124568";
  std::size_t accepted = 0;
  const auto check = [&](const std::string& wire) {
    bool parsed = true;
    try {
      EXPECT_EQ(parse_dtype(wire).wire, wire);
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kDtypeUnknown) << wire;
      parsed = false;
    }
    ASSERT_EQ(parsed, is_short_dtype(wire, plain)) << wire;
    accepted += parsed ? 1 : 0;
  };
  for (const char a : kAlphabet) {
    check({a});
    for (const char b : kAlphabet) {
      check({a, b});
      for (const char c : kAlphabet) {
        check({a, b, c});
        for (const char d : {'0', '6', 's', ']', 'x'}) check({a, b, c, d});
      }
    }
  }
  EXPECT_GT(accepted, plain.size());
}

TEST(DtypeFromName, IsTheInverse) {
  for (const Plain& plain : kPlain) {
    const std::string wire = (plain.item_bytes == 1 ? "|" : "<") + std::string(plain.code);
    EXPECT_EQ(dtype_from_name(plain.name), parse_dtype(wire)) << plain.name;
    EXPECT_EQ(dtype_from_name(plain.name).wire, wire);
  }
  for (const Opaque& opaque : kOpaque) {
    const Dtype dtype = dtype_from_name(opaque.name);
    EXPECT_EQ(dtype.name, opaque.name);
    EXPECT_EQ(dtype.item_bytes, opaque.item_bytes);
    EXPECT_EQ(parse_dtype(dtype.wire), dtype);
  }
  EXPECT_EQ(dtype_from_name("bfloat16").wire, "<V2\0torch.bfloat16"s);
  EXPECT_EQ(dtype_from_name("float8_e4m3fn").wire, "|V1\0torch.float8_e4m3fn"s);
}

TEST(DtypeFromName, RefusesOtherNames) {
  for (const char* name : {"", "float", "torch.float32", "f4", "quint8", "Float32", "float32 ", "float8_"}) {
    EXPECT_EQ(caught([&] { dtype_from_name(name); }), failure(ErrorCode::kUsage)) << name;
  }
}

}  // namespace
}  // namespace tzmark
