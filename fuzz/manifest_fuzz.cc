// Any bytes as the manifest of a corpus, and as its list of rules: refused with a reason, or read.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "expect.h"
#include "runner/errors.h"
#include "runner/manifest.h"
#include "scratch.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tzmark;
  const std::filesystem::path& directory = fuzz::scratch_directory();
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  fuzz::write_scratch(directory / "manifest.json", bytes);
  std::filesystem::remove(directory / "rules.json");
  try {
    const conformance::Manifest manifest = conformance::load_manifest(directory);
    for (const conformance::Case& item : manifest.cases) {
      fuzz::expect(item.id.find('/') == std::string::npos, "an id is the name of a file");
      fuzz::expect(!item.path.is_absolute(), "the files of a corpus lie in it");
    }
    fuzz::write_scratch(directory / "rules.json", bytes);
    conformance::load_manifest(directory);
  } catch (const conformance::EnvironmentError&) {
  }
  return 0;
}
