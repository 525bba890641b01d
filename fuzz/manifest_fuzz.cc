// Any bytes as the manifest of a corpus: refused with a reason, or read.
#include <cstdint>

#include "expect.h"
#include "runner/errors.h"
#include "runner/manifest.h"
#include "scratch.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tzmark;
  const std::filesystem::path& directory = fuzz::scratch_directory();
  fuzz::write_scratch(directory / "manifest.json", {reinterpret_cast<const std::byte*>(data), size});
  try {
    const conformance::Manifest manifest = conformance::load_manifest(directory);
    for (const conformance::Case& item : manifest.cases) {
      fuzz::expect(item.id.find('/') == std::string::npos, "an id is the name of a file");
      fuzz::expect(!item.path.is_absolute(), "the files of a corpus lie in it");
    }
  } catch (const conformance::EnvironmentError&) {
  }
  return 0;
}
