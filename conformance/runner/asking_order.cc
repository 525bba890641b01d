// Sequences, and the order of all; see asking_order.h.
#include "runner/asking_order.h"

#include <map>
#include <random>
#include <string>
#include <utility>

namespace tzmark::conformance {

std::vector<std::vector<std::size_t>> asking_order(const std::vector<Case>& cases) {
  std::vector<std::vector<std::size_t>> order;
  std::map<std::string, std::size_t> sequences;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto& sequence = cases[i].sequence;
    if (!sequence || sequences.try_emplace(*sequence, order.size()).second) {
      order.push_back({i});
    } else {
      order[sequences[*sequence]].push_back(i);
    }
  }
  // Not std::shuffle, whose order differs between libraries.
  std::mt19937_64 random(1);
  for (std::size_t left = order.size(); left > 1; --left) std::swap(order[left - 1], order[random() % left]);
  return order;
}

}  // namespace tzmark::conformance
