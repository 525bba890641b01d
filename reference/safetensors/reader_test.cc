// What a reader does with files that are damaged, cut off or hostile, and with files that fail.
#include <gmock/gmock.h>

#include <random>

#include "bytes/digest.h"
#include "testing/caught.h"
#include "testing/faults/faulty_file.h"
#include "testing/files/memory_file.h"
#include "testing/files/safetensors_models.h"
#include "testing/files/test_directory.h"
#include "tzmark/canonical.h"

namespace tzmark {
namespace {

using test::caught;
using test::error_of;
using test::failure;
using test::open_safetensors;
using test::safetensors_bytes;

constexpr std::string_view kTwoTensors =
    R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
    R"("b":{"dtype":"U8","shape":[5],"data_offsets":[24,29]}})";

std::vector<std::byte> two_tensors() { return safetensors_bytes(kTwoTensors, 29); }

SafetensorsReadOptions library_options() {
  SafetensorsReadOptions options;
  options.profile = SafetensorsProfile::kLibrary;
  options.threads = 1;
  options.piece_bytes = 4096;
  return options;
}

TEST(SafetensorsReader, ListsWhatTheHeaderSays) {
  const SafetensorsReader reader = open_safetensors(two_tensors());
  ASSERT_EQ(reader.size(), 2U);
  EXPECT_EQ(reader[0].name, "w");
  EXPECT_EQ(reader[0].dtype, "F32");
  EXPECT_EQ(reader[0].torch_dtype, "float32");
  EXPECT_THAT(reader[0].shape, ::testing::ElementsAre(2U, 3U));
  EXPECT_EQ(reader[1].begin, 24U);
  EXPECT_EQ(reader[1].end, 29U);
  EXPECT_EQ(reader.find("b"), 1U);
  EXPECT_EQ(reader.find("c"), std::nullopt);
  EXPECT_EQ(reader.data_bytes(), 29U);
  EXPECT_EQ(reader.file_bytes(), two_tensors().size());
  EXPECT_FALSE(reader.sharded());
  ASSERT_EQ(reader.shards().size(), 1U);
  EXPECT_EQ(reader.shards()[0].data_begin, 8 + kTwoTensors.size());
  EXPECT_THAT(reader.metadata(), ::testing::ElementsAre(std::pair("format", "pt")));
}

TEST(SafetensorsReader, ReadsAnyPartOfATensor) {
  const auto file = two_tensors();
  const SafetensorsReader reader = open_safetensors(file);
  const auto stream = reader.open(0);
  std::vector<std::byte> part(10);
  stream->read(3, std::span(part));
  const auto begin = file.begin() + static_cast<std::ptrdiff_t>(8 + kTwoTensors.size() + 3);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), begin));
  EXPECT_EQ(stream->expected(), nullptr);
  EXPECT_EQ(error_of([&] { stream->read(15, std::span(part)); }), ErrorCode::kUsage);
  EXPECT_EQ(error_of([&] { stream->read(25, {}); }), ErrorCode::kUsage);
  EXPECT_EQ(error_of([&] { stream->read(24, {}); }), std::nullopt);
}

TEST(SafetensorsReader, GivesItsTensorsToAWriterOfTensorsFiles) {
  const SafetensorsReader reader = open_safetensors(two_tensors());
  const TensorTable table = reader.tensor_table();
  MemoryFile file;
  write_tensors(file, table, reader, {});
  const Reader copy = test::open_bytes(file.content());
  copy.verify();
  ASSERT_EQ(copy.tensors().size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(copy.tensors()[i].name, reader[i].name);
    EXPECT_EQ(copy.tensors()[i].kind, Kind::kStateDict);
    std::vector<std::byte> a(reader[i].data_length()), b(a.size());
    reader.read(i, std::span(a));
    copy.read(i, std::span(b));
    EXPECT_EQ(a, b);
  }
}

TEST(SafetensorsReader, NamesTheTensorThatTensorsFilesCannotHold) {
  for (const std::string dtype : {"F4", "F6_E2M3", "F6_E3M2"}) {
    const std::string bytes = dtype == "F4" ? "4" : "6";
    const SafetensorsReader reader = open_safetensors(safetensors_bytes(
        R"({"tiny":{"dtype":")" + dtype + R"(","shape":[8],"data_offsets":[0,)" + bytes + "]}}", std::stoul(bytes)));
    EXPECT_EQ(reader[0].torch_dtype, "");
    reader.verify();
    try {
      reader.tensor_table();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      EXPECT_THAT(error.message(), ::testing::HasSubstr("'tiny' is of dtype " + dtype));
    }
  }
}

TEST(SafetensorsReader, RefusesNamesThatTensorsFilesCannotHold) {
  const std::string entry = R"(:{"dtype":"U8","shape":[],"data_offsets":[0,1]}})";
  for (const std::string name : {R"("")", R"("\u001e[0]")"}) {
    const SafetensorsReader reader = open_safetensors(safetensors_bytes("{" + name + entry, 1));
    EXPECT_EQ(error_of([&] { reader.tensor_table(); }), ErrorCode::kNameUnwritable) << name;
  }
}

TEST(SafetensorsReader, PrintsCanonicalJson) {
  const auto file = two_tensors();
  const SafetensorsReader reader = open_safetensors(file);
  const auto data = std::span(file).subspan(8 + kTwoTensors.size());
  EXPECT_EQ(canonical_json(reader),
            R"({"format": "safetensors", "metadata": {"format":"pt"},)"
            "\n \"tensors\": [\n  "
            R"({"path":["w"],"dtype":"float32","wire_dtype":"F32","shape":[2,3],"data_length":24,"sha256":")" +
                to_hex(sha256(data.first(24))) +
                "\"},\n  "
                R"({"path":["b"],"dtype":"uint8","wire_dtype":"U8","shape":[5],"data_length":5,"sha256":")" +
                to_hex(sha256(data.subspan(24))) + "\"}\n ]}\n");
  EXPECT_EQ(canonical_json(open_safetensors(safetensors_bytes("{}"))),
            "{\"format\": \"safetensors\", \"metadata\": {},\n \"tensors\": [\n ]}\n");
}

TEST(SafetensorsReader, TellsProgressOfEveryByte) {
  std::atomic<std::uint64_t> told = 0;
  SafetensorsReadOptions options = library_options();
  options.progress = [&](std::uint64_t bytes) { told += bytes; };
  open_safetensors(two_tensors(), options).verify();
  EXPECT_EQ(told, 29U);
}

// Every file that is cut off is refused, and for the reason that the length of what is left gives.
TEST(SafetensorsReader, RefusesTruncationAtEveryByte) {
  const auto whole = two_tensors();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const auto expected = length < 8                        ? ErrorCode::kStTruncated
                          : length < 8 + kTwoTensors.size() ? ErrorCode::kStHeaderPastEnd
                                                            : ErrorCode::kStDataEnd;
    const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_EQ(error_of([&] { open_safetensors(cut); }), expected) << length;
  }
}

// The same with a header that says it is as short: what is cut off is JSON, then.
TEST(SafetensorsReader, RefusesHeadersCutOffAtEveryByte) {
  for (std::size_t length = 0; length < kTwoTensors.size(); ++length) {
    const auto expected = length == 0 ? ErrorCode::kStHeaderStart : ErrorCode::kStHeaderJson;
    const auto file = safetensors_bytes(kTwoTensors.substr(0, length), 29);
    EXPECT_EQ(error_of([&] { open_safetensors(file); }), expected) << length;
    EXPECT_EQ(error_of([&] { open_safetensors(file, library_options()); }), expected) << length;
  }
}

// Any damage ends in a result or in an error about the file. What spec reading accepts, library reading does too.
TEST(SafetensorsReader, SurvivesRandomDamage) {
  const auto whole = two_tensors();
  std::mt19937_64 random(4);
  constexpr std::string_view kLikely = "{}[]\":,0123456789 \n\\ue-.Ff";
  unsigned accepted = 0, refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    auto damaged = whole;
    for (std::uint64_t k = 0; k < 1 + random() % 3; ++k) {
      const auto value = round % 2 == 0 ? static_cast<std::byte>(random())
                                        : static_cast<std::byte>(kLikely[random() % kLikely.size()]);
      damaged[random() % (8 + kTwoTensors.size())] = value;
    }
    const auto attempt = [&](SafetensorsProfile profile) -> std::optional<ErrorClass> {
      SafetensorsReadOptions options = library_options();
      options.profile = profile;
      try {
        const SafetensorsReader reader = open_safetensors(damaged, options);
        if (round % 50 == 0) reader.verify();
        std::uint64_t position = 0;
        for (std::size_t i = 0; i < reader.size(); ++i) {
          EXPECT_EQ(reader[i].begin, position);
          position = reader[i].end;
        }
        EXPECT_EQ(position, 29U);
      } catch (const Error& error) {
        return error.error_class();
      }
      return std::nullopt;
    };
    const auto spec = attempt(SafetensorsProfile::kSpec);
    const auto library = attempt(SafetensorsProfile::kLibrary);
    EXPECT_TRUE(!spec || *spec == ErrorClass::kFile);
    EXPECT_TRUE(!library || *library == ErrorClass::kFile);
    EXPECT_TRUE(spec || !library) << "accepted by the stricter profile alone";
    spec ? ++refused : ++accepted;
  }
  // Letters in names change without harm; anything else does not.
  EXPECT_GT(accepted, 100U);
  EXPECT_GT(refused, 10'000U);
}

TEST(SafetensorsReader, HostileLengthsCostNothing) {
  for (const std::uint64_t claim : {std::uint64_t{93}, std::uint64_t{100'000'000}, ~std::uint64_t{0}}) {
    std::vector<std::byte> bytes = safetensors_bytes(std::string(92, ' '));
    store(bytes, 0, claim);
    test::CountingFile counter(bytes);
    EXPECT_EQ(caught([&] { SafetensorsReader(std::make_unique<test::BorrowedFile>(counter)); }),
              failure(claim > 100'000'000 ? ErrorCode::kStHeaderTooLarge : ErrorCode::kStHeaderPastEnd, 0));
    // The length, and the look at what else the file may be.
    EXPECT_EQ(counter.bytes_read(), 8U + bytes.size());
  }
}

// A shape says what it says: nothing is allocated for it.
TEST(SafetensorsReader, ShapesOfTerabytesAreRefusedBySize) {
  EXPECT_EQ(error_of([] {
              open_safetensors(safetensors_bytes(
                  R"({"a":{"dtype":"U8","shape":[1099511627776],"data_offsets":[0,1099511627776]}})", 3));
            }),
            ErrorCode::kStDataEnd);
}

// Reading fails at each call in turn: the error comes out, whatever was going on.
TEST(SafetensorsReader, PassesOnWhatFailsBelow) {
  MemoryFile inner(two_tensors());
  const auto run = [&](File& file) {
    SafetensorsReader(std::make_unique<test::BorrowedFile>(file), library_options()).verify();
  };
  FaultyFile whole(inner, FaultyFile::Fault::kNone, 0);
  run(whole);
  const std::uint64_t calls = whole.calls();
  ASSERT_GE(calls, 3U);
  for (std::uint64_t call = 0; call < calls; ++call) {
    FaultyFile failing(inner, FaultyFile::Fault::kError, call);
    EXPECT_EQ(error_of([&] { run(failing); }), ErrorCode::kReadFailed) << call;
    FaultyFile ending(inner, FaultyFile::Fault::kEnd, call);
    EXPECT_EQ(error_of([&] { run(ending); }), ErrorCode::kFileChanged) << call;
  }
  FaultyFile slow(inner, FaultyFile::Fault::kShort, 1, true);
  run(slow);
  EXPECT_GT(slow.calls(), calls);
}

TEST(SafetensorsReader, OpensFilesByName) {
  const test::TestDirectory room;
  test::write_whole(room / "a.safetensors", two_tensors());
  const SafetensorsReader reader = SafetensorsReader::open(room / "a.safetensors");
  EXPECT_EQ(reader.size(), 2U);
  EXPECT_EQ(reader.shards()[0].file_name, "a.safetensors");
  EXPECT_EQ(error_of([&] { SafetensorsReader::open(room / "b.safetensors"); }), ErrorCode::kOpenFailed);
  EXPECT_TRUE(is_safetensors_name("x/model.safetensors"));
  EXPECT_TRUE(is_safetensors_name("model.safetensors.index.json"));
  EXPECT_FALSE(is_safetensors_name("model.tensors"));
  EXPECT_FALSE(is_safetensors_name("index.json"));
}

TEST(SafetensorsProfile, HasNames) {
  for (const auto profile : {SafetensorsProfile::kSpec, SafetensorsProfile::kLibrary}) {
    EXPECT_EQ(safetensors_profile_from_name(safetensors_profile_name(profile)), profile);
  }
  EXPECT_EQ(safetensors_profile_from_name("lax"), std::nullopt);
}

}  // namespace
}  // namespace tzmark
