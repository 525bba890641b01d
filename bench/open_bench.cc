// Makes a file of many tensors and times opening it. scripts/bench-open compares that with tensorizer.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <vector>

#include "tzmark/reader.h"
#include "tzmark/writer.h"

namespace {

// Many small tensors with the names of a large model.
void make_file(const std::string& file_name, std::size_t count) {
  tzmark::TensorTable table;
  const tzmark::Dtype dtype = tzmark::dtype_from_name("float32");
  const std::array<std::uint64_t, 2> shape = {4, 4};
  for (std::size_t i = 0; i < count; ++i) {
    table.add({fmt::format("model.layers.{}.mlp.experts.{}.weight", i / 64, i % 64)}, tzmark::Kind::kStateDict, dtype,
              shape);
  }
  const std::vector<std::byte> zeros(64);
  const tzmark::MemorySource source(std::vector<tzmark::ConstBuffer>(count, {zeros.data(), zeros.size()}));
  tzmark::write_file(file_name, table, source, {});
}

std::vector<std::int64_t> time_open(const std::string& file_name, int repetitions, bool check_headers) {
  std::vector<std::int64_t> open_ns;
  for (int i = 0; i < repetitions; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const tzmark::Reader reader = tzmark::Reader::open(file_name);
    if (check_headers) reader.check_headers();
    open_ns.push_back((std::chrono::steady_clock::now() - begin) / std::chrono::nanoseconds(1));
  }
  return open_ns;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Makes a file of many small tensors, or times opening it");
  std::string file_name;
  bool make = false;
  std::size_t tensors = 100000;
  int repetitions = 9;
  bool check_headers = false;
  bool json = false;
  app.add_option("FILE", file_name)->required();
  app.add_flag("--make", make, "Write FILE instead of opening it");
  app.add_option("--tensors", tensors, "Number of tensors to write")->capture_default_str();
  app.add_option("--repetitions", repetitions, "Number of times to open FILE")->capture_default_str();
  app.add_flag("--check-headers", check_headers, "Also read and check every tensor header");
  app.add_flag("--json", json, "Print JSON");
  CLI11_PARSE(app, argc, argv);
  try {
    if (make) {
      make_file(file_name, tensors);
      return 0;
    }
    const auto open_ns = time_open(file_name, repetitions, check_headers);
    fmt::print("{}\n", json ? nlohmann::json{{"open_ns", open_ns}}.dump() : fmt::format("{}", fmt::join(open_ns, " ")));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tzmark-open-bench: {}: {}\n", file_name, error.what());
    return 1;
  }
}
