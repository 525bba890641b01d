// Tests of the table of tensors.
#include "tzmark/table.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <random>

#include "testing/caught.h"
#include "testing/files/structures.h"

namespace tzmark {
namespace {

using test::caught;
using test::failure;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

using Shape = std::vector<std::uint64_t>;

TEST(TensorTable, HoldsWhatWasAdded) {
  TensorTable table;
  EXPECT_EQ(table.size(), 0U);
  table.add({"layers", std::uint64_t{0}, "weight"}, Kind::kStateDict, dtype_from_name("bfloat16"), Shape{2, 3}, false,
            9);
  table.add({"b"}, Kind::kBuffer, dtype_from_name("float64"), Shape{});
  table.add({"m"}, Kind::kParameter, dtype_from_name("int8"), Shape{1'000'000, 1'000'000}, true);
  table.add({"z"}, Kind::kParameter, dtype_from_name("bfloat16"), Shape{4, 0});
  ASSERT_EQ(table.size(), 4U);

  const TensorInfo weight = table[0];
  EXPECT_EQ(weight.name, "\x1e[\"layers\",0,\"weight\"]");
  EXPECT_EQ(weight.path(), (Path{"layers", std::uint64_t{0}, "weight"}));
  EXPECT_EQ(weight.kind, Kind::kStateDict);
  EXPECT_EQ(weight.dtype, dtype_from_name("bfloat16"));
  EXPECT_THAT(weight.shape, ElementsAre(2, 3));
  EXPECT_EQ(weight.data_length, 12U);
  EXPECT_EQ(weight.module_index, 9);
  EXPECT_EQ(weight.header_offset, 0U);
  EXPECT_FALSE(weight.meta());

  EXPECT_EQ(table[1].name, "b");
  EXPECT_EQ(table[1].kind, Kind::kBuffer);
  EXPECT_THAT(table[1].shape, IsEmpty());
  EXPECT_EQ(table[1].data_length, 8U);
  EXPECT_FALSE(table[1].meta());

  EXPECT_TRUE(table[2].meta());
  EXPECT_EQ(table[2].data_length, 0U);
  EXPECT_EQ(table[2].dtype.name, "int8");

  // Without elements it has no data, but it is not a meta tensor.
  EXPECT_FALSE(table[3].meta());
  EXPECT_EQ(table[3].data_length, 0U);
  EXPECT_EQ(table[3].dtype.name, "bfloat16");
}

TEST(TensorTable, MetaScalarAndMetaWithoutElements) {
  TensorTable table;
  table.add({"scalar"}, Kind::kParameter, dtype_from_name("float32"), Shape{}, true);
  table.add({"empty"}, Kind::kParameter, dtype_from_name("float32"), Shape{0}, true);
  EXPECT_TRUE(table[0].meta());
  EXPECT_FALSE(table[1].meta());
}

TEST(TensorTable, TakesEntriesAsTheyStand) {
  test::RawTensor raw{1, "\x1e[not checked here", "<f4", {2, 3}, 77};
  IndexEntry entry;
  static_cast<TensorFields&>(entry) = raw.fields();
  entry.header_offset = 110;
  entry.data_offset = 184;
  TensorTable table;
  table.add(entry, parse_dtype("<f4"));
  // The table has copies; the entry may be used again.
  raw.name = "other";
  entry = {};
  const TensorInfo tensor = table[0];
  EXPECT_EQ(tensor.name, "\x1e[not checked here");
  EXPECT_EQ(tensor.kind, Kind::kBuffer);
  EXPECT_EQ(tensor.dtype.wire, "<f4");
  EXPECT_THAT(tensor.shape, ElementsAre(2, 3));
  EXPECT_EQ(tensor.data_length, 77U);
  EXPECT_EQ(tensor.header_offset, 110U);
  EXPECT_EQ(tensor.data_offset, 184U);
  EXPECT_EQ(tensor.module_index, 0);
}

TEST(TensorTable, FieldsAreWhatTheWireWants) {
  TensorTable table;
  table.add({"w"}, Kind::kStateDict, dtype_from_name("int16"), Shape{5, 6, 7});
  const TensorFields fields = table[0].fields();
  EXPECT_EQ(fields.kind, Kind::kStateDict);
  EXPECT_EQ(fields.name, "w");
  EXPECT_EQ(fields.dtype, "<i2");
  EXPECT_THAT(fields.shape(), ElementsAre(5, 6, 7));
  EXPECT_EQ(fields.data_length, 420U);
}

TEST(TensorTable, ManyTensorsOfManySorts) {
  const std::vector<std::string> kDtypes = {"float32", "bfloat16", "int8", "complex128", "float8_e5m2", "bool"};
  struct Expected {
    std::string name, dtype;
    Shape shape;
  };
  std::vector<Expected> expected;
  std::mt19937_64 random(1);
  TensorTable table;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    Expected tensor{fmt::format("{:.{}}", fmt::format("tensor.{}.with.a.longer.name", i), 7 + 5 + random() % 20),
                    kDtypes[random() % kDtypes.size()], Shape(random() % 5)};
    for (std::uint64_t& dimension : tensor.shape) dimension = random() % 100;
    table.add({tensor.name}, Kind::kParameter, dtype_from_name(tensor.dtype), tensor.shape, random() % 2 == 0,
              static_cast<std::uint16_t>(i));
    expected.push_back(std::move(tensor));
  }
  ASSERT_EQ(table.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const TensorInfo tensor = table[i];
    ASSERT_EQ(tensor.name, expected[i].name);
    ASSERT_EQ(tensor.dtype.name, expected[i].dtype);
    ASSERT_THAT(tensor.shape, ElementsAreArray(expected[i].shape));
    ASSERT_EQ(tensor.module_index, i & 0xffff);
  }
}

TEST(TensorTable, RefusesWhatDoesNotFit) {
  TensorTable table;
  const Dtype dtype = dtype_from_name("float64");
  const auto add = [&](const Path& path, const Shape& shape, Kind kind = Kind::kStateDict, bool meta = false) {
    return [&table, &dtype, path, shape, kind, meta] { table.add(path, kind, dtype, shape, meta); };
  };
  constexpr std::size_t kAround = std::string_view("\x1e[\"a\",\"\"]").size();
  EXPECT_EQ(caught(add({}, {})), failure(ErrorCode::kNameUnwritable));
  EXPECT_EQ(caught(add({""}, {})), failure(ErrorCode::kNameUnwritable));
  EXPECT_EQ(caught(add({"\xff"}, {})), failure(ErrorCode::kNameUtf8));
  EXPECT_EQ(caught(add({std::string(65536, 'x')}, {})), failure(ErrorCode::kUsage));
  EXPECT_EQ(caught(add({"a", std::string(65536 - kAround, 'x')}, {})), failure(ErrorCode::kUsage));
  EXPECT_EQ(caught(add({"a", "b"}, {}, Kind::kParameter)), failure(ErrorCode::kNameKind));
  EXPECT_EQ(caught(add({std::uint64_t{0}}, {}, Kind::kBuffer)), failure(ErrorCode::kNameKind));
  EXPECT_EQ(caught(add({"a"}, Shape(256, 1))), failure(ErrorCode::kUsage));
  EXPECT_EQ(caught(add({"a"}, {std::uint64_t{1} << 60})), failure(ErrorCode::kIndexShapeOverflow));
  EXPECT_EQ(caught(add({"a"}, {std::uint64_t{1} << 61}, Kind::kStateDict, true)),
            failure(ErrorCode::kIndexShapeOverflow));
  // A refused tensor leaves nothing behind.
  EXPECT_EQ(table.size(), 0U);
  add({std::string(65535, 'x')}, Shape(255, 1))();
  add({"a", std::string(65535 - kAround, 'x')}, {(std::uint64_t{1} << 60) - 1})();
  EXPECT_EQ(table[0].name.size(), 65535U);
  EXPECT_EQ(table[0].shape.size(), 255U);
  EXPECT_EQ(table[1].name.size(), 65535U);
  EXPECT_EQ(table[1].data_length, (std::uint64_t{1} << 63) - 8);
}

}  // namespace
}  // namespace tzmark
