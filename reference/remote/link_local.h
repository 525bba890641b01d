// Addresses where clouds hand out credentials. A redirect there asks for what no server of models has.
//
// Sources: RFC 3927 (169.254.0.0/16), RFC 4291 (fe80::/10, mapped and compatible addresses), RFC 6052 (64:ff9b::/96);
// the metadata services of AWS (fd00:ec2::/32) and Google (fd20:ce::/32, metadata.google.internal). Pure functions.
#pragma once

#include <netinet/in.h>

#include <string>

namespace tzmark {

bool is_link_local_address(const in_addr& address);
// Also an address that stands for one of IPv4.
bool is_link_local_address(const in6_addr& address);

// Of the host of a URL: an address in any of the forms that libraries accept, such as 2852039166 or [::ffff:a9fe:a9fe],
// or the name of such a service. Other names are not resolved.
bool is_link_local_host(const std::string& host);

}  // namespace tzmark
