// A small corpus in a temporary directory, for tests. Its files are not .tensors files: nothing in the runner opens
// them.
//
// Thread-safety: one object belongs to one thread.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "runner/file_content.h"
#include "runner/json.h"
#include "runner/sha256.h"
#include "runner/specification.h"

namespace tzmark::conformance {

// The 200 bytes of the worked example in FORMAT.md: one tensor w, float32, 1.0 and -2.0.
inline std::string worked_example() {
  return data_of_recipe(
      {{"hex",
        "7c545a527c010000000000000000000000000000000000000000000000000000000000000000000000080000000000000000"
        "000000000000000100000000000000250000000000000001007700033c663401020000006e00000000000000b80000000000"
        "000008000000000000004a00000000000000000000010077033c6634010200000029000200048203ab0901200c128e2f0e87"
        "802c8c7ca0053b65aaf83100e10fc94c3236f6f294c89cd1123708000000000000000000803f000000c00000000000000000"}});
}

inline std::string sha256_of_file(const std::filesystem::path& file) { return sha256_of(read_file(file)); }

class TestCorpus {
 public:
  TestCorpus() {
    std::string name = std::filesystem::temp_directory_path() / "tzmark-test-XXXXXX";
    if (!::mkdtemp(name.data())) throw std::runtime_error("mkdtemp");
    directory_ = name;
  }
  ~TestCorpus() { std::filesystem::remove_all(directory_); }
  TestCorpus(const TestCorpus&) = delete;
  TestCorpus& operator=(const TestCorpus&) = delete;
  TestCorpus(TestCorpus&&) = delete;
  TestCorpus& operator=(TestCorpus&&) = delete;

  const std::filesystem::path& directory() const { return directory_; }

  void write(const std::string& path, std::string_view content) const {
    std::ofstream(directory_ / path, std::ios::binary) << content;
  }

  // Adds a case with its file, and returns its manifest entry to be changed. Files that may be read have an
  // expectation.
  Json& add(const std::string& id, const std::string& verdict) {
    write(id + ".bin", "content of " + id);
    Json entry = {{"id", id},
                  {"path", id + ".bin"},
                  {"sha256", sha256_of_file(directory_ / (id + ".bin"))},
                  {"size_bytes", std::filesystem::file_size(directory_ / (id + ".bin"))},
                  {"layout", "v1"},
                  {"features", Json::array()},
                  {"verdict", verdict},
                  {"tier", "MUST"},
                  {"rules", {"TZR-HDR-002"}},
                  {"why", "A reason."},
                  {"origin", {{"recipe", "recipes/none.py"}, {"seed", 1}}},
                  {"limits", {{"memory_bytes", 64 << 20}, {"seconds", 10}}}};
    if (verdict == "valid" || verdict == "integrity-failure" || verdict == "implementation-defined") {
      write(id + ".json", R"({"data_version": 1, "layout": "v1", "encrypted": false,
                              "tensors": [{"path": ["a"], "shape": [2, 3], "module_index": 0}]})");
      entry["expected"] = id + ".json";
      entry["expected_sha256"] = sha256_of_file(directory_ / (id + ".json"));
    }
    manifest_["cases"].push_back(entry);
    return manifest_["cases"].back();
  }

  // Adds a specification of one tensor, w of float32 1.0 and -2.0. The fake adapter answers with a copy of writes.
  Json& add_encode(const std::string& id, const std::string& verdict, const Json& writes) {
    const Json specification = {
        {"layout", "auto"},
        {"data", {{"a", {{"hex", "0000803f000000c0"}}}}},
        {"tensors",
         {{{"path", {"w"}},
           {"kind", "parameter"},
           {"module_index", 0},
           {"dtype", "float32"},
           {"shape", {2}},
           {"meta", false},
           {"data", {{"of", "a"}, {"offset", 0}, {"length", 8}}}}}},
        {"case", {{"id", id}, {"verdict", verdict}, {"rules", {"TZR-HDR-006"}}, {"writes", writes}}}};
    write(id + ".spec.json", specification.dump());
    write("encoded.json", R"({"data_version": 1, "layout": "v1", "encrypted": false, "tensors": [{"path": ["w"],
      "kind": "parameter", "module_index": 0, "dtype": "float32", "wire_dtype": "<f4", "shape": [2], "meta": false,
      "data_length": 8, "sha256": "ee4ac73c2bd27756ab82780f27c73a7bc4d3f0bb6acb37e008bc27eccd7e588b"}]})");
    Json entry = {{"id", id},
                  {"spec", id + ".spec.json"},
                  {"sha256", sha256_of_file(directory_ / (id + ".spec.json"))},
                  {"size_bytes", std::filesystem::file_size(directory_ / (id + ".spec.json"))},
                  {"layout", "v1"},
                  {"features", Json::array()},
                  {"verdict", verdict},
                  {"tier", "MUST"},
                  {"rules", {"TZR-HDR-006"}},
                  {"why", "A reason."},
                  {"origin", {{"recipe", "recipes/none.py"}, {"seed", 1}}},
                  {"limits", {{"memory_bytes", 64 << 20}, {"seconds", 10}}}};
    if (verdict == "valid") {
      entry["expected"] = "encoded.json";
      entry["expected_sha256"] = sha256_of_file(directory_ / "encoded.json");
    }
    manifest_["encode_cases"].push_back(entry);
    return manifest_["encode_cases"].back();
  }

  Json& manifest() { return manifest_; }

  // To be called after the last change.
  void save() const { write("manifest.json", manifest_.dump()); }

 private:
  std::filesystem::path directory_;
  Json manifest_ = {{"schema_version", 1}, {"cases", Json::array()}};
};

}  // namespace tzmark::conformance
