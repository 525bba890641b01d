// Any bytes as a name or a dtype: what parses can be spelled again and means the same.
#include <cstdint>
#include <string>
#include <string_view>

#include "expect.h"
#include "tzmark/dtype.h"
#include "tzmark/path.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tzmark;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  fuzz::accepts([&] {
    const Path path = parse_name(text);
    std::string written;
    // Readers take some names that writers refuse.
    if (!fuzz::accepts([&] { written = serialize_name(path); }, {ErrorClass::kUsage})) return;
    fuzz::expect(parse_name(written) == path, "a name that was read is written and read again");
  });
  fuzz::accepts([&] { fuzz::expect(parse_dtype(text).item_bytes != 0, "an element has a size"); });
  return 0;
}
