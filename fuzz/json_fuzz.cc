// Any bytes as JSON of a stranger: parsed by the suite within its limits, and written on one line that parses as the
// same.
#include <cstdint>
#include <stdexcept>
#include <string_view>

#include "expect.h"
#include "runner/json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tzmark::conformance;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  tzmark::fuzz::expect(one_line(text, 100).find('\n') == std::string::npos, "one line is one");
  try {
    const Json document = parse_untrusted_json(text);
    const std::string line = dump_line(document);
    tzmark::fuzz::expect(line.find('\n') == std::string::npos, "a document is on one line");
    tzmark::fuzz::expect(parse_untrusted_json(line) == document, "a document that was read is written and read again");
  } catch (const std::runtime_error&) {
  }
  return 0;
}
