// Bytes of a file under construction; see blob.h.
#include "mutation/blob.h"

#include <algorithm>

#include "model/text.h"

namespace tzmark::conformance::mutation {
namespace {

constexpr std::size_t kNumberMaxBytes = 8;

std::uint64_t number_of(std::string_view bytes) { return model::little_endian(std::as_bytes(std::span(bytes))); }

}  // namespace

std::string number_bytes(std::uint64_t number, std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(number >> 8 * i & 0xff);
  return bytes;
}

std::string difference_of(std::string_view found, std::string_view right) {
  if (right.size() <= kNumberMaxBytes) return number_bytes(number_of(found) - number_of(right), right.size());
  std::string difference(found);
  std::ranges::transform(difference, right, difference.begin(),
                         [](char a, char b) { return static_cast<char>(a ^ b); });
  return difference;
}

std::string with_deviation(const Deviations& deviations, const std::string& name, std::string right) {
  const auto found = deviations.find(name);
  if (found == deviations.end()) return right;
  const Deviation& deviation = found->second;
  if (!deviation.relative) return deviation.bytes;
  if (deviation.difference.size() != right.size()) return right;
  if (right.size() > kNumberMaxBytes) return difference_of(deviation.difference, right);
  return number_bytes(number_of(right) + number_of(deviation.difference), right.size());
}

std::string Blob::add(std::string_view name, std::string right) {
  const std::string full = full_name(name);
  std::string bytes = with_deviation(*deviations_, full, std::move(right));
  sites_.push_back({std::nullopt, full, bytes_.size(), bytes.size()});
  bytes_ += bytes;
  return bytes;
}

std::uint64_t Blob::add(std::string_view name, std::uint64_t right, std::size_t size) {
  return number_of(add(name, number_bytes(right, size)));
}

void Blob::add(const Blob& other) {
  for (Site site : other.sites_) {
    site.offset += bytes_.size();
    sites_.push_back(std::move(site));
  }
  bytes_ += other.bytes_;
}

const Site& Blob::site(std::string_view name) const {
  const std::string full = full_name(name);
  return *std::ranges::find_if(sites_, [&](const Site& site) { return site.name == full; });
}

void Blob::fill(std::string_view name, std::string right) {
  const Site& place = site(name);
  const std::string bytes = with_deviation(*deviations_, place.name, std::move(right));
  bytes_.replace(place.offset, place.size, bytes, 0, place.size);
}

}  // namespace tzmark::conformance::mutation
