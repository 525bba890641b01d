// Any bytes as a result of tzmark bench or of Google Benchmark, as compare reads it.
#include <cmath>
#include <cstdint>

#include "cli/run_document.h"
#include "expect.h"
#include "scratch.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tzmark;
  const std::filesystem::path file = fuzz::scratch_directory() / "result.json";
  fuzz::write_scratch(file, {reinterpret_cast<const std::byte*>(data), size});
  fuzz::accepts(
      [&] {
        const bench::RunDocument run = bench::load_run(file);
        for (const auto& [id, series] : run.series) {
          for (const auto& [round, rate] : series.rates) {
            fuzz::expect(std::isfinite(rate) && rate > 0, "a rate is a finite positive number");
          }
        }
        bench::differences_of({run, run});
      },
      {ErrorClass::kEnvironment});
  return 0;
}
