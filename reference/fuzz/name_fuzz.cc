// Any bytes as a name or a dtype: what parses can be spelled again and means the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tzmark/dtype.h"
#include "tzmark/error.h"
#include "tzmark/path.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tzmark;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const Path path = parse_name(text);
    if (parse_name(serialize_name(path)) != path) std::abort();
  } catch (const Error&) {
  }
  try {
    if (parse_dtype(text).item_bytes == 0) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
