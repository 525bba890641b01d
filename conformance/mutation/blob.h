// Bytes of a file under construction, with their fields and the deviations of these.
//
// Thread-safety: one object belongs to one thread. It refers to deviations, which must outlive it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mutation/draft.h"

namespace tzmark::conformance::mutation {

// Little-endian.
std::string number_bytes(std::uint64_t number, std::size_t size);

// The difference of two values of the same size: see Deviation.
std::string difference_of(std::string_view found, std::string_view right);

// The value of a field whose correct value is `right`.
std::string with_deviation(const Deviations& deviations, const std::string& name, std::string right);

class Blob {
 public:
  Blob(const Deviations& deviations, std::string_view prefix) : deviations_(&deviations), prefix_(prefix) {}

  // Adds a field, and returns its value.
  std::string add(std::string_view name, std::string right);
  std::uint64_t add(std::string_view name, std::uint64_t right, std::size_t size);
  // Appends another blob.
  void add(const Blob& other);
  // Sets the correct value of an existing field.
  void fill(std::string_view name, std::string right);

  const std::string& bytes() const { return bytes_; }
  const std::vector<Site>& sites() const { return sites_; }
  const Site& site(std::string_view name) const;

 private:
  std::string full_name(std::string_view name) const { return prefix_ + std::string(name); }

  const Deviations* deviations_;
  std::string prefix_;
  std::string bytes_;
  std::vector<Site> sites_;
};

}  // namespace tzmark::conformance::mutation
