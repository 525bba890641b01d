// Any bytes as a profile of tzmark tune: what parses is serialized, and parses as the same.
#include <cstdint>
#include <string_view>

#include "expect.h"
#include "tzmark/profile.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tzmark;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  fuzz::accepts(
      [&] {
        const Profile profile = parse_profile(text);
        fuzz::expect(parse_profile(serialize(profile)) == profile, "a profile that was read is written and read again");
      },
      {ErrorClass::kUsage});
  return 0;
}
