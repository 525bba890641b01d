// tzmark bench open: the time to open a file. scripts/bench-open compares it with that of tensorizer.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/bench_commands.h"
#include "cli/run_program.h"
#include "tzmark/reader.h"
#include "tzmark/writer.h"

namespace tzmark::bench {
namespace {

// Many small tensors with the names of a large model.
void make_file(const std::string& file_name, std::size_t count) {
  TensorTable table;
  const Dtype dtype = dtype_from_name("float32");
  const std::array<std::uint64_t, 2> shape = {4, 4};
  for (std::size_t i = 0; i < count; ++i) {
    table.add({fmt::format("model.layers.{}.mlp.experts.{}.weight", i / 64, i % 64)}, Kind::kStateDict, dtype, shape);
  }
  const std::vector<std::byte> zeros(64);
  const MemorySource source(std::vector<ConstBuffer>(count, {zeros.data(), zeros.size()}));
  write_file(file_name, table, source, {});
}

std::vector<std::int64_t> time_open(const std::string& file_name, unsigned repetitions, bool check_headers) {
  std::vector<std::int64_t> open_ns;
  for (unsigned i = 0; i < repetitions; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const Reader reader = Reader::open(file_name);
    if (check_headers) reader.check_headers();
    open_ns.push_back((std::chrono::steady_clock::now() - begin) / std::chrono::nanoseconds(1));
  }
  return open_ns;
}

}  // namespace

void add_open(CLI::App& bench) {
  struct Options {
    std::string file_name, json_file;
    std::size_t tensors = 0;
    unsigned repetitions = 9;
    bool check_headers = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App& app = *bench.add_subcommand("open", "Measure the time to open a file; prints nanoseconds");
  app.add_option("FILE", options->file_name)->required();
  app.add_option("--tensors", options->tensors, "Write FILE first, with so many small tensors")
      ->check(CLI::PositiveNumber);
  app.add_option("--repetitions", options->repetitions, "Number of times to open FILE")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--check-headers", options->check_headers, "Also read and check every tensor header");
  app.add_option("--json", options->json_file, "Write the times to this file");
  app.callback([options] {
    if (!options->json_file.empty()) refuse_to_replace(options->json_file, {options->file_name});
    const auto open_ns = about_file(options->file_name, [&] {
      if (options->tensors > 0) make_file(options->file_name, options->tensors);
      return time_open(options->file_name, options->repetitions, options->check_headers);
    });
    if (!options->json_file.empty()) ResultFile(options->json_file).commit(nlohmann::json{{"open_ns", open_ns}});
    say("{}\n", fmt::join(open_ns, " "));
  });
}

}  // namespace tzmark::bench
