// A small corpus in a temporary folder, for tests. Its files are not .tensors files: nothing in the runner opens them.
//
// Thread-safety: one object belongs to one thread.
#pragma once

#include <fmt/format.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "json.h"
#include "sha256.h"

namespace tzmark::conformance {

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
    }
    manifest_["cases"].push_back(entry);
    return manifest_["cases"].back();
  }

  Json& manifest() { return manifest_; }

  // To be called after the last change.
  void save() const { write("manifest.json", manifest_.dump()); }

 private:
  std::filesystem::path directory_;
  Json manifest_ = {{"schema_version", 1}, {"cases", Json::array()}};
};

}  // namespace tzmark::conformance
