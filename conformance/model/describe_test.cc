// Fields and annotations of single files, and damage of all sorts.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <utility>

#include "model/corpus_files.h"
#include "model/little_memory.h"

namespace tzmark::conformance::model {
namespace {

// The worked example of FORMAT.md: its bytes, and the offsets and names of its fields.
struct WorkedExample {
  std::vector<std::byte> file;
  std::vector<std::pair<std::uint64_t, std::string>> fields;
};

WorkedExample worked_example() {
  const char* source = std::getenv("TZMARK_SOURCE_DIR");
  if (!source) throw std::runtime_error("TZMARK_SOURCE_DIR is not set");
  std::ifstream document(std::string(source) + "/reference/FORMAT.md");
  WorkedExample example;
  bool inside = false;
  for (std::string line; std::getline(document, line);) {
    inside = inside ? !line.starts_with("## Appendix") : line.starts_with("<!-- worked example");
    if (!inside) continue;
    if (!line.empty() && line.find_first_not_of("0123456789abcdef ") == std::string::npos) {
      for (std::size_t i = 0; i < line.size(); i += 3) {
        example.file.push_back(static_cast<std::byte>(std::stoi(line.substr(i, 2), nullptr, 16)));
      }
      continue;
    }
    // "| 75 | `77` | index: name | `w` |"; the data has no structure, and so no colon.
    const std::size_t bytes_end = line.find("` | ");
    if (!line.starts_with("| ") || bytes_end == std::string::npos) continue;
    const std::string place = line.substr(bytes_end + 4, line.find(" |", bytes_end + 4) - bytes_end - 4);
    const std::size_t colon = place.find(": ");
    if (colon != std::string::npos) example.fields.emplace_back(std::stoull(line.substr(2)), place.substr(colon + 2));
  }
  return example;
}

// The value of the other structure, too, because the bytes around do not show it.
TEST(Describe, TellsBothValuesWhereHeaderAndIndexDiffer) {
  const WorkedExample example = worked_example();
  const Description whole = describe(example.file, {});
  for (const auto& [name, says] : std::vector<std::pair<std::string, std::string>>{
           {"name", "name is 'v' and should be as in the index: 'w'"},
           {"dim", "dim is 3 and should be as in the index: 2"},
           {"data_length", "data_length is 9 and should be as in the index: 8"}}) {
    auto file = example.file;
    for (const Field& field : whole.fields) {
      if (field.structure == "tensor header 0" && field.name == name) file[field.offset] ^= std::byte{1};
    }
    std::vector<std::string> messages;
    for (const Defect& defect : describe(file, {}).defects) messages.push_back(sentence_of(defect));
    EXPECT_THAT(messages, testing::Contains(testing::HasSubstr(says)));
  }
}

TEST(Describe, GivesTheFieldsOfTheWorkedExample) {
  const WorkedExample example = worked_example();
  ASSERT_EQ(example.file.size(), 200);
  ASSERT_GT(example.fields.size(), 30);
  const Description description = describe(example.file, {});
  EXPECT_TRUE(description.defects.empty());
  std::vector<std::pair<std::uint64_t, std::string>> fields;
  for (const Annotated& row : annotate(description, example.file, 0, example.file.size())) {
    fields.emplace_back(row.offset, row.field.substr(row.field.find(": ") + 2));
  }
  for (const auto& field : example.fields) EXPECT_THAT(fields, testing::Contains(field));
}

TEST(Describe, GoesOnBehindADefect) {
  std::vector<std::byte> file = worked_example().file;
  file[0] = std::byte{'!'};  // the magic
  file[76] = std::byte{3};   // the kind in the index
  file[192] = std::byte{1};  // the terminator
  std::vector<std::pair<std::string, std::uint64_t>> found;
  for (const Defect& defect : describe(file, {}).defects) found.emplace_back(defect.rule, defect.offset.value());
  const std::vector<std::pair<std::string, std::uint64_t>> expected = {
      {"TZR-HDR-002", 0}, {"TZR-IDX-004", 76}, {"TZR-REC-007", 120}, {"TZR-TRM-002", 192}};
  EXPECT_EQ(found, expected);
}

TEST(Describe, LeavesOutTheRulesThatItIsTold) {
  std::vector<std::byte> file = worked_example().file;
  file[5] = std::byte{6};  // the data version
  EXPECT_TRUE(describe(file, {}).document.is_null());
  const Description careless = describe(file, {}, {"TZR-HDR-003"});
  EXPECT_TRUE(std::none_of(careless.defects.begin(), careless.defects.end(), refuses_verify));
  EXPECT_EQ(careless.document["data_version"], 6);
  EXPECT_EQ(careless.document["tensors"][0]["path"][0], "w");
}

TEST(Describe, StillJudgesWritersWithoutOneRule) {
  std::vector<std::byte> file = worked_example().file;
  file[5] = std::byte{2};   // a data version that the content does not need
  file[49] = std::byte{1};  // unused
  EXPECT_EQ(describe(file, {}).defects.size(), 2);
  const Description asked_for = describe(file, {}, {"TZR-HDR-006"});
  ASSERT_EQ(asked_for.defects.size(), 1);
  EXPECT_EQ(asked_for.defects[0].kind, Defect::Kind::kWriter);
  EXPECT_EQ(asked_for.defects[0].offset, 49);
}

// About fifty small files of all sorts. Passphrases are left out, as a changed cost of key derivation takes seconds.
std::vector<CorpusCase> small_cases() {
  std::vector<CorpusCase> cases = corpus_cases();
  std::erase_if(cases, [](const CorpusCase& item) {
    const std::uintmax_t size_bytes = std::filesystem::file_size(item.file);
    return item.secret.passphrase || size_bytes == 0 || size_bytes > 16384;
  });
  std::mt19937_64 random(4);
  std::shuffle(cases.begin(), cases.end(), random);
  cases.resize(50);
  return cases;
}

TEST(Describe, GivesTheSameStructureWithoutTheData) {
  for (const CorpusCase& item : small_cases()) {
    SCOPED_TRACE(item.id);
    const std::vector<std::byte> file = bytes_of(item.file);
    std::vector<Field> fields = describe(file, item.secret).fields;
    std::erase_if(fields, [](const Field& field) { return field.structure == "file"; });
    std::vector<Field> found;
    describe_structure(file).visit_fields([&](const Field& field) { found.push_back(field); });
    const auto same = [](const Field& a, const Field& b) {
      return a.offset == b.offset && a.size == b.size && a.structure == b.structure && a.name == b.name &&
             a.value == b.value;
    };
    EXPECT_TRUE(std::ranges::equal(found, fields, same));
  }
}

std::string number_bytes(std::uint64_t number, std::size_t size) {
  std::string bytes(size, 0);
  for (char& byte : bytes) byte = static_cast<char>(std::exchange(number, number >> 8) & 0xff);
  return bytes;
}

// A file of data version 1 whose tensors are single numbers without hashes.
std::string file_of_scalars(std::size_t tensors) {
  constexpr std::size_t kEntryBytes = 40, kHeaderBytes = 37, kDataBytes = 4;
  const std::size_t index_end = 73 + tensors * kEntryBytes;
  std::string file = "|TZR|" + number_bytes(1, 4) + std::string(32, 0) + number_bytes(tensors * kDataBytes, 8) +
                     std::string(8, 0) + number_bytes(tensors, 8) + number_bytes(tensors * kEntryBytes, 8);
  std::string records;
  for (std::size_t i = 0; i < tensors; ++i) {
    const std::string description = number_bytes(8, 2) + fmt::format("{:08}", i) + '\0' + '\3' + "<f4" + '\0';
    const std::size_t begin = index_end + i * (kHeaderBytes + kDataBytes);
    file += description + number_bytes(begin, 8) + number_bytes(begin + kHeaderBytes, 8) + number_bytes(kDataBytes, 8);
    records += number_bytes(kHeaderBytes, 8) + number_bytes(0, 2) + '\0' + description.substr(0, 10) +
               description.substr(11) + number_bytes(1, 2) + '\0' + number_bytes(kDataBytes, 8) +
               number_bytes(i, kDataBytes);
  }
  return file + records + number_bytes(0, 8);
}

TEST(DescribeStructure, TakesLittleMemoryForManyTensors) {
  constexpr std::size_t kTensors = 20'000, kFieldsPerTensor = 21;
  const std::string file = file_of_scalars(kTensors);
  const LittleMemory little(std::uint64_t{64} << 20);
  const Outline outline = describe_structure(std::as_bytes(std::span(file)));
  EXPECT_THAT(outline.defects, testing::IsEmpty());
  std::size_t fields = 0;
  std::uint64_t end = 0;
  outline.visit_fields([&](const Field& field) {
    ++fields;
    EXPECT_EQ(std::exchange(end, field.offset + field.size), field.offset);
  });
  EXPECT_EQ(fields, 8 + kTensors * kFieldsPerTensor);
  EXPECT_EQ(end, file.size());
}

TEST(Annotate, ShowsTheFieldsAroundAByte) {
  const std::vector<std::byte> file = worked_example().file;
  const std::vector<Annotated> rows = annotate(describe(file, {}), file, 79, 1);
  ASSERT_EQ(rows.size(), 3);
  EXPECT_EQ(rows[0].field, "index entry 0: dtype_length");
  EXPECT_FALSE(rows[0].marked);
  EXPECT_EQ(rows[1].offset, 78);
  EXPECT_EQ(rows[1].hex, "3c 66 34");
  EXPECT_EQ(rows[1].field, "index entry 0: dtype");
  EXPECT_EQ(rows[1].value, "'<f4'");
  EXPECT_TRUE(rows[1].marked);
  EXPECT_FALSE(rows[2].marked);
}

TEST(Annotate, MarksNothingBeyondTheFile) {
  const std::vector<std::byte> file = worked_example().file;
  const std::vector<Annotated> rows = annotate(describe(file, {}), file, 200, 2);
  ASSERT_EQ(rows.size(), 3);
  EXPECT_EQ(rows[2].field, "terminator: terminator");
  EXPECT_TRUE(std::none_of(rows.begin(), rows.end(), [](const Annotated& row) { return row.marked; }));
  EXPECT_TRUE(annotate(describe({}, {}), {}, 0, 2).empty());
}

CorpusCase case_of(const std::string& id) {
  for (CorpusCase& item : corpus_cases()) {
    if (item.id == id) return item;
  }
  throw std::runtime_error("the corpus has no case " + id);
}

TEST(Describe, KeepsManyDimensionsSmall) {
  const std::vector<std::byte> file = bytes_of(case_of("shape-255-dims").file);
  const Description description = describe(file, {});
  std::size_t memory_bytes = 0;
  for (const Field& field : description.fields) {
    memory_bytes += sizeof(field) + field.structure.size() + field.name.size() + field.value.size();
  }
  EXPECT_LT(memory_bytes, 5 * file.size());
}

TEST(Annotate, ShowsEachOfManyDimensions) {
  const std::vector<std::byte> file = bytes_of(case_of("shape-255-dims").file);
  const Description description = describe(file, {});
  const auto dims = std::find_if(description.fields.begin(), description.fields.end(),
                                 [](const Field& field) { return field.name == "dim"; });
  ASSERT_NE(dims, description.fields.end());
  EXPECT_EQ(dims->numbers, 255);
  const std::vector<Annotated> middle = annotate(description, file, dims->offset + 4 * 200 + 1, 1);
  ASSERT_EQ(middle.size(), 3);
  EXPECT_EQ(middle[0].field, "index entry 0: dim[199]");
  EXPECT_EQ(middle[1].field, "index entry 0: dim[200]");
  EXPECT_EQ(middle[1].offset, dims->offset + 4 * 200);
  EXPECT_EQ(middle[1].hex, "01 00 00 00");
  EXPECT_EQ(middle[1].value, "1");
  EXPECT_TRUE(middle[1].marked);
  EXPECT_EQ(middle[2].field, "index entry 0: dim[201]");
  const std::vector<Annotated> start = annotate(description, file, dims->offset, 1);
  ASSERT_EQ(start.size(), 3);
  EXPECT_EQ(start[0].field, "index entry 0: ndim");
  EXPECT_EQ(start[1].field, "index entry 0: dim[0]");
}

void expect_sound(const Description& description, Bytes file) {
  for (const Field& field : description.fields) {
    ASSERT_LE(field.offset, file.size());
    ASSERT_LE(field.size, file.size() - field.offset);
  }
  const bool refused = std::any_of(description.defects.begin(), description.defects.end(), refuses_decode);
  EXPECT_EQ(description.document.is_null(), refused);
  for (const Defect& defect : description.defects) {
    EXPECT_LE(annotate(description, file, defect.offset.value_or(0), 3).size(), 7);
  }
}

TEST(Describe, SurvivesCutsAndFlips) {
  std::mt19937_64 random(40);
  const Json rules = corpus_rules();
  std::vector<std::string> ids;
  for (const auto& [id, rule] : rules.at("rules").items()) ids.push_back(id);
  for (const CorpusCase& item : small_cases()) {
    SCOPED_TRACE(item.id);
    const std::vector<std::byte> file = bytes_of(item.file);
    for (int i = 0; i < 100; ++i) {
      std::vector<std::byte> damaged = file;
      if (i % 2 == 0) damaged.resize(random() % file.size());
      // Most bytes that mean something are near the start.
      const std::size_t reach = i % 3 == 0 ? damaged.size() : std::min<std::size_t>(damaged.size(), 400);
      if (reach > 0) damaged[random() % reach] = static_cast<std::byte>(random());
      expect_sound(describe(damaged, item.secret), damaged);
      expect_sound(describe(damaged, item.secret, {ids[random() % ids.size()], ids[random() % ids.size()]}), damaged);
    }
  }
}

}  // namespace
}  // namespace tzmark::conformance::model
