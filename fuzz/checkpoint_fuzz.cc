// Any bytes as one of the JSON files of a checkpoint: what parses is serialized, and parses as the same.
#include <cstdint>
#include <string>
#include <string_view>

#include "checkpoint/records.h"
#include "expect.h"

namespace {

template <typename Parse, typename Serialize>
void check(std::string_view text, Parse parse, Serialize serialize,
           std::initializer_list<tzmark::ErrorClass> blamed = {tzmark::ErrorClass::kFile}) {
  tzmark::fuzz::accepts(
      [&] {
        const std::string once = serialize(parse(text));
        tzmark::fuzz::expect(serialize(parse(once)) == once, "a record that was read is written and read again");
      },
      blamed);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tzmark::checkpoint;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check(text, parse_commit, serialize_commit);
  // Written by another rank of the same save.
  check(text, parse_manifest, serialize_manifest, {tzmark::ErrorClass::kEnvironment});
  check(text, parse_sharding, [](const ShardingMeta& meta) { return serialize_sharding(meta); });
  check(text, parse_state, serialize_state);
  return 0;
}
