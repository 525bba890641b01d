// See remote/link_local.h.
#include "remote/link_local.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <span>

namespace tzmark {

bool is_link_local_address(const in_addr& address) { return (ntohl(address.s_addr) >> 16) == 0xA9FE; }

bool is_link_local_address(const in6_addr& address) {
  const std::span<const unsigned char, 16> bytes(address.s6_addr);
  const auto begins_with = [&](const auto& prefix) { return std::ranges::equal(bytes.first(prefix.size()), prefix); };
  constexpr std::array<unsigned char, 4> kAmazon = {0xFD, 0x00, 0x0E, 0xC2};
  constexpr std::array<unsigned char, 4> kGoogle = {0xFD, 0x20, 0x00, 0xCE};
  constexpr std::array<unsigned char, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
  constexpr std::array<unsigned char, 12> kCompatible = {};
  constexpr std::array<unsigned char, 12> kTranslated = {0x00, 0x64, 0xFF, 0x9B};
  if (begins_with(kMapped) || begins_with(kCompatible) || begins_with(kTranslated)) {
    return bytes[12] == 169 && bytes[13] == 254;
  }
  return (bytes[0] == 0xFE && (bytes[1] & 0xC0) == 0x80) || begins_with(kAmazon) || begins_with(kGoogle);
}

bool is_link_local_host(const std::string& host) {
  in6_addr ipv6{};
  if (host.starts_with('[')) {
    return ::inet_pton(AF_INET6, host.substr(1, host.find_first_of("%]") - 1).c_str(), &ipv6) == 1 &&
           is_link_local_address(ipv6);
  }
  in_addr ipv4{};
  if (::inet_aton(host.c_str(), &ipv4) != 0) return is_link_local_address(ipv4);
  return host == "metadata.google.internal" || host == "metadata.google.internal.";
}

}  // namespace tzmark
