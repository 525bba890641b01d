// Between .tensors and safetensors: every file of the corpus that both can hold, from and to every layout.
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "testing/files/corpus.h"
#include "testing/files/memory_file.h"
#include "testing/files/tensors_files.h"
#include "tzmark/canonical.h"
#include "tzmark/safetensors.h"

namespace tzmark {
namespace {

using nlohmann::json;

// What both formats say of a tensor. Kinds, module indices and the order of tensors are beyond safetensors.
std::map<std::string, std::tuple<std::string, json, std::string>> content_of(const std::string& canonical) {
  std::map<std::string, std::tuple<std::string, json, std::string>> content;
  const json decoded = json::parse(canonical);
  for (const json& tensor : decoded.at("tensors")) {
    content[tensor.at("path").dump()] = {tensor.at("dtype").get<std::string>(), tensor.at("shape"),
                                         tensor.at("sha256").get<std::string>()};
  }
  return content;
}

TEST(Conversion, ToSafetensorsAndBackKeepsEveryTensor) {
  std::map<Layout, int> converted;
  int refused = 0;
  for (const json& test : test::manifest().at("cases")) {
    if (test.at("verdict") != "valid") continue;
    SCOPED_TRACE(test.at("id").get<std::string>());
    const Reader original = test::open_case(test);
    MemoryFile file;
    try {
      write_safetensors(file, writable_table(original), original);
    } catch (const Error& error) {
      // Meta tensors, structured names, foreign and big-endian types; empty names are no writer's.
      EXPECT_TRUE(error.rule() == "ST-018" || error.rule() == "TZR-NAM-009") << error.what();
      ++refused;
      continue;
    }
    const auto expected = content_of(canonical_json(original));
    const SafetensorsReader reader(std::make_unique<MemoryFile>(file.content()));
    ASSERT_EQ(content_of(canonical_json(reader)), expected);
    const TensorTable table = reader.tensor_table();
    const Layout lowest = lowest_layout(table, false);
    for (const Layout layout : kLayouts) {
      if (!can_hold(layout, lowest)) continue;
      WriteOptions options;
      options.layout = layout;
      ReadOptions read;
      if (layout == Layout::kV3) {
        options.encrypt = test::with_key();
        read.key = key_from_hex(test::kKeyHex);
      }
      MemoryFile back;
      write_tensors(back, table, reader, options);
      const Reader again = test::open_bytes(back.content(), std::move(read));
      again.verify();
      ASSERT_EQ(content_of(canonical_json(again)), expected) << layout_name(layout);
      ++converted[layout];
    }
  }
  for (const Layout layout : kLayouts) EXPECT_GT(converted[layout], 100) << layout_name(layout);
  EXPECT_GT(refused, 50);
}

}  // namespace
}  // namespace tzmark
