// What all kinds of ranks do the same way; see cluster/ranks.h.
#include "cluster/ranks.h"

#include <cstdint>
#include <span>

namespace tzmark::bench {

std::string Ranks::from_first(std::string text) {
  std::uint64_t length = text.size();
  broadcast(std::as_writable_bytes(std::span(&length, 1)), 0);
  text.resize(length);
  if (length > 0) broadcast(std::as_writable_bytes(std::span(text)), 0);
  return text;
}

bool Ranks::agree(bool mine) {
  bool all = mine;
  for (const std::string& one : gather(mine ? "1" : "0")) all = all && one == "1";
  return from_first(all ? "1" : "0") == "1";
}

}  // namespace tzmark::bench
