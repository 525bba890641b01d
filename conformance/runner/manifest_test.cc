// Tests of the manifest: what is read, what is refused, and that changed files are found.
#include "runner/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "runner/errors.h"
#include "testing/test_corpus.h"

namespace tzmark::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The message with which loading the corpus, or checking its first case, fails.
std::string failure_of(TestCorpus& corpus) {
  corpus.save();
  try {
    Manifest manifest = load_manifest(corpus.directory());
    read_case_file(manifest, manifest.cases.at(0));
    load_expected(manifest, manifest.cases);
  } catch (const EnvironmentError& error) {
    return error.what();
  }
  return "no failure";
}

TEST(Manifest, ReadsEveryField) {
  TestCorpus corpus;
  Json& entry = corpus.add("one", "implementation-defined");
  entry["features"] = {"meta", "encryption"};
  entry["passphrase"] = "open sesame";
  entry["open_choice"] = "Whether.";
  entry["erratum"] = "Wrong.";
  entry["limits"] = {{"memory_bytes", 1234}, {"seconds", 1.5}};
  corpus.add("two", "authentication-failure")["key_hex"] = "00ff";
  corpus.save();

  Manifest manifest = load_manifest(corpus.directory());
  load_expected(manifest, manifest.cases);
  EXPECT_EQ(manifest.sha256, sha256_of_file(corpus.directory() / "manifest.json"));
  ASSERT_EQ(manifest.cases.size(), 2u);
  const Case& one = manifest.cases[0];
  EXPECT_EQ(one.id, "one");
  EXPECT_EQ(one.path, "one.bin");
  EXPECT_EQ(one.size_bytes, 14u);
  EXPECT_EQ(one.layout, "v1");
  EXPECT_THAT(one.features, ElementsAre("meta", "encryption"));
  EXPECT_EQ(one.verdict, Verdict::kImplementationDefined);
  EXPECT_EQ(one.tier, "MUST");
  EXPECT_THAT(one.rules, ElementsAre("TZR-HDR-002"));
  EXPECT_EQ(one.why, "A reason.");
  EXPECT_EQ(one.origin["seed"], 1);
  EXPECT_EQ(one.passphrase, "open sesame");
  EXPECT_FALSE(one.key_hex);
  EXPECT_EQ(one.expected, "one.json");
  EXPECT_EQ(one.open_choice, "Whether.");
  EXPECT_EQ(one.erratum, "Wrong.");
  EXPECT_EQ(one.limits.memory_max_bytes, 1234u);
  EXPECT_EQ(one.limits.elapsed_max, std::chrono::milliseconds(1500));
  EXPECT_EQ(manifest.cases[1].verdict, Verdict::kAuthenticationFailure);
  EXPECT_EQ(manifest.cases[1].key_hex, "00ff");
  EXPECT_EQ(expected_of(one)->at("data_version"), 1);
  EXPECT_FALSE(expected_of(manifest.cases[1]));
  EXPECT_EQ(read_case_file(manifest, one).size(), one.size_bytes);
}

TEST(Manifest, FindsAChangedFile) {
  TestCorpus corpus;
  corpus.add("one", "valid");
  corpus.write("one.bin", "content of onf");
  EXPECT_THAT(failure_of(corpus), HasSubstr("but the manifest says"));
}

// Before a run, and at its end.
TEST(Manifest, FindsAChangedExpectation) {
  TestCorpus corpus;
  corpus.add("one", "valid");
  corpus.save();
  Manifest manifest = load_manifest(corpus.directory());
  load_expected(manifest, manifest.cases);
  EXPECT_NO_THROW(check_unchanged(manifest, manifest.cases));
  corpus.write("one.json", "{}");
  EXPECT_EQ(expected_of(manifest.cases[0])->at("data_version"), 1) << "it was read again";
  EXPECT_THROW(check_unchanged(manifest, manifest.cases), EnvironmentError);
  EXPECT_THAT(failure_of(corpus), HasSubstr("one.json has SHA-256"));
}

// At the end of a run, whether an adapter was asked about the case or not.
TEST(Manifest, FindsFilesThatWereChangedMeanwhile) {
  for (const char* const changed : {"one.bin", "two.spec.json", "rules.json"}) {
    TestCorpus corpus;
    corpus.add("one", "invalid");
    corpus.add_encode("two", "valid", nullptr);
    corpus.write("rules.json", R"({"rules": {}})");
    corpus.save();
    const Manifest manifest = load_manifest(corpus.directory());
    EXPECT_NO_THROW(check_unchanged(manifest, manifest.cases));
    corpus.write(changed, "{}");
    EXPECT_THROW(check_unchanged(manifest, manifest.cases), EnvironmentError) << changed;
    std::filesystem::remove(corpus.directory() / changed);
    EXPECT_THROW(check_unchanged(manifest, manifest.cases), EnvironmentError) << changed;
  }
}

TEST(Manifest, FindsThatItWasChangedItself) {
  TestCorpus corpus;
  corpus.add("one", "valid");
  corpus.save();
  const Manifest manifest = load_manifest(corpus.directory());
  corpus.write("manifest.json", "{}");
  EXPECT_THROW(check_unchanged(manifest, {}), EnvironmentError);
}

TEST(Manifest, FindsAMissingFile) {
  TestCorpus corpus;
  corpus.add("one", "valid");
  std::filesystem::remove(corpus.directory() / "one.bin");
  EXPECT_THAT(failure_of(corpus), HasSubstr("is missing"));
}

TEST(Manifest, RefusesAMissingCorpus) { EXPECT_THROW(load_manifest("/nonexistent/corpus"), EnvironmentError); }

TEST(Manifest, RefusesWhatItCannotUse) {
  struct Row {
    const char* what;
    std::function<void(TestCorpus&, Json& entry)> change;
    const char* message;
  };
  const std::vector<Row> rows = {
      {"no cases", [](TestCorpus& corpus, Json&) { corpus.manifest().erase("cases"); }, "no list of cases"},
      {"another schema", [](TestCorpus& corpus, Json&) { corpus.manifest()["schema_version"] = 2; }, "schema_version"},
      {"no id", [](TestCorpus&, Json& entry) { entry.erase("id"); }, "key 'id' not found"},
      {"id upwards", [](TestCorpus&, Json& entry) { entry["id"] = "../../x"; }, "the id '../../x' is not a file name"},
      {"id of dots", [](TestCorpus&, Json& entry) { entry["id"] = ".."; }, "is not a file name"},
      {"id of two lines", [](TestCorpus&, Json& entry) { entry["id"] = "a\nb"; }, "the id 'a b' is not a file name"},
      {"wrong type", [](TestCorpus&, Json& entry) { entry["rules"] = "TZR-HDR-002"; }, "must be array"},
      {"unknown verdict", [](TestCorpus&, Json& entry) { entry["verdict"] = "fine"; }, "unknown verdict 'fine'"},
      {"absolute path", [](TestCorpus&, Json& entry) { entry["path"] = "/etc/passwd"; }, "not a path below"},
      {"path upwards", [](TestCorpus&, Json& entry) { entry["expected"] = "a/../../b"; }, "not a path below"},
      {"two keys",
       [](TestCorpus&, Json& entry) {
         entry["key_hex"] = "00";
         entry["passphrase"] = "x";
       },
       "both key_hex and passphrase"},
      {"valid without expectation", [](TestCorpus&, Json& entry) { entry.erase("expected"); }, "without 'expected'"},
      {"expectation without digest", [](TestCorpus&, Json& entry) { entry.erase("expected_sha256"); },
       "'expected' without 'expected_sha256'"},
      {"relative placeholder", [](TestCorpus&, Json& entry) { entry["directory_placeholder"] = "here"; },
       "directory_placeholder is no absolute path"},
      {"no time", [](TestCorpus&, Json& entry) { entry["limits"]["seconds"] = 0; }, "limits.seconds"},
      {"same id",
       [](TestCorpus& corpus, Json&) {
         Json& cases = corpus.manifest()["cases"];
         cases = {cases[0], cases[0]};
       },
       "a second case of id 'one'"},
  };
  for (const Row& row : rows) {
    TestCorpus corpus;
    row.change(corpus, corpus.add("one", "valid"));
    EXPECT_THAT(failure_of(corpus), HasSubstr(row.message)) << row.what;
  }
}

Json shard_of(const TestCorpus& corpus, const std::string& name, std::uint64_t size_bytes = 14) {
  return {{"path", "one.bin"},
          {"name", name},
          {"sha256", sha256_of_file(corpus.directory() / "one.bin")},
          {"size_bytes", size_bytes}};
}

// The message with which loading fails for shards of these names.
std::string failure_of_shards(const std::vector<std::string>& names, std::uint64_t size_bytes = 14) {
  TestCorpus corpus;
  Json& entry = corpus.add("one", "invalid");
  for (const std::string& name : names) entry["shards"].push_back(shard_of(corpus, name, size_bytes));
  return failure_of(corpus);
}

TEST(Manifest, RefusesShardsThatCannotBeStaged) {
  using namespace std::string_literals;
  for (const std::string& name : {""s, "."s, ".."s, "../.."s, "sub/"s, "sub/.."s, "../../x"s, "../q/../../x"s, "/x"s,
                                  "../model"s, "a\0b"s, "..\0x/y"s, std::string(256, 'a')}) {
    const std::string failure = failure_of_shards({name});
    EXPECT_THAT(failure, HasSubstr("is not the name of a shard")) << name;
    EXPECT_THAT(failure, HasSubstr("manifest.json: case one: "));
  }
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{"a", "a"}, {"a", "./a"}, {"a", "sub/../a"}, {"a", "../model/a"}}) {
    EXPECT_THAT(failure_of_shards(names), HasSubstr("two shards of the name '" + names[1]));
  }
  EXPECT_THAT(failure_of_shards({"a", "a/b"}), HasSubstr("a shard has the name of the directory of 'model/a/b'"));
  EXPECT_THAT(failure_of_shards({"a/b/c", "a"}), HasSubstr("a shard has the name of the directory"));
  const std::uint64_t half_bytes = 128 << 20;
  EXPECT_THAT(failure_of_shards({"a", "b", "c"}, half_bytes), HasSubstr("the shards have more than 256 MiB"));
  EXPECT_THAT(failure_of_shards({"a"}, UINT64_MAX), HasSubstr("the shards have more than 256 MiB"));
}

// A reader that does not refuse such names finds files there.
TEST(Manifest, TakesNamesOfShardsOneDirectoryAboveTheIndex) {
  const std::vector<std::string> names = {"a", "../a", "sub/a", "../sub/a", "..a", "c:\\a", "model", "a\nb"};
  EXPECT_EQ(failure_of_shards(names), "no failure");
}

TEST(Manifest, ReadsAFileOnceForAllShardsOfItsPath) {
  TestCorpus corpus;
  Json& entry = corpus.add("one", "invalid");
  for (const char* const name : {"a", "b"}) entry["shards"].push_back(shard_of(corpus, name));
  corpus.save();
  const Manifest manifest = load_manifest(corpus.directory());
  const std::vector<Shard> shards = read_shards(manifest, manifest.cases.at(0));
  ASSERT_EQ(shards.size(), 2U);
  EXPECT_EQ(shards[0].name, "a");
  EXPECT_EQ(shards[1].name, "b");
  EXPECT_EQ(shards[0].content, shards[1].content);
  EXPECT_EQ(shards[0].content->size(), 14U);
}

// Its owner would have to wait until more is read than there is memory.
TEST(Manifest, ComparesTheSizeBeforeItReads) {
  TestCorpus corpus;
  corpus.add("one", "invalid")["shards"].push_back(shard_of(corpus, "a"));
  corpus.save();
  const Manifest manifest = load_manifest(corpus.directory());
  std::filesystem::resize_file(corpus.directory() / "one.bin", std::uintmax_t{1} << 40);
  for (const auto& read : {std::function<void()>([&] { read_case_file(manifest, manifest.cases.at(0)); }),
                           std::function<void()>([&] { read_shards(manifest, manifest.cases.at(0)); }),
                           std::function<void()>([&] { check_files(manifest, manifest.cases.at(0)); })}) {
    try {
      read();
      ADD_FAILURE() << "it was read";
    } catch (const EnvironmentError& error) {
      EXPECT_THAT(error.what(), HasSubstr("one.bin has 1099511627776 bytes, but the manifest says 14"));
    }
  }
}

// A corpus may be a stranger's.
TEST(Manifest, RefusesDocumentsThatAreNoFiles) {
  for (const char* const name : {"manifest.json", "rules.json"}) {
    for (const bool is_link : {false, true}) {
      TestCorpus corpus;
      corpus.add("one", "invalid");
      corpus.save();
      const std::filesystem::path document = corpus.directory() / name;
      std::filesystem::remove(document);
      if (is_link) {
        corpus.write("other.json", corpus.manifest().dump());
        std::filesystem::create_symlink("other.json", document);
      } else {
        ASSERT_EQ(::mkfifo(document.c_str(), 0600), 0);
      }
      EXPECT_THROW(load_manifest(corpus.directory()), EnvironmentError) << name << is_link;
    }
  }
}

TEST(Manifest, RefusesTextThatIsNotJson) {
  TestCorpus corpus;
  corpus.write("manifest.json", "{\"cases\": [");
  EXPECT_THROW(load_manifest(corpus.directory()), EnvironmentError);
}

TEST(Sha256, OfKnownFiles) {
  TestCorpus corpus;
  corpus.write("empty", "");
  corpus.write("abc", "abc");
  corpus.write("long", std::string(1'000'000, 'a'));
  EXPECT_EQ(sha256_of_file(corpus.directory() / "empty"),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_of_file(corpus.directory() / "abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of_file(corpus.directory() / "long"),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_THROW(sha256_of_file(corpus.directory()), EnvironmentError);
}

}  // namespace
}  // namespace tzmark::conformance
