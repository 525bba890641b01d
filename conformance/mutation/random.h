// Random numbers that are the same on every machine, as those of the standard library's distributions are not.
//
// Thread-safety: one object belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace tzmark::conformance::mutation {

// SplitMix64.
class Random {
 public:
  // Streams of one seed have nothing to do with each other.
  Random(std::uint64_t seed, std::uint64_t stream) : state_(seed) { state_ = next() ^ (stream * 0xd1342543de82ef95); }

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  // REQUIRES: bound > 0.
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }

  bool one_in(std::uint64_t count) { return below(count) == 0; }

  // REQUIRES: there is one.
  template <typename T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }
  template <typename T>
  const T& pick(const std::vector<T>& values) {
    return values[below(values.size())];
  }

  // One of the kinds, and one of that kind, so that what is there once is as likely as what is there a hundred times.
  // REQUIRES: there is one.
  template <typename T, typename Kind>
  const T& pick_by_kind(const std::vector<T>& values, Kind kind_of) {
    std::map<std::string, std::vector<const T*>> kinds;
    for (const T& value : values) kinds[kind_of(value)].push_back(&value);
    return *pick(std::next(kinds.begin(), static_cast<std::ptrdiff_t>(below(kinds.size())))->second);
  }

 private:
  std::uint64_t state_;
};

}  // namespace tzmark::conformance::mutation
