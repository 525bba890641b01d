// Hosts where a redirect must not lead, in each form that a library takes for an address.
#include "remote/link_local.h"

#include <gtest/gtest.h>

namespace tzmark {
namespace {

TEST(LinkLocal, IsKnownInEachForm) {
  for (const char* const host :
       {"169.254.169.254", "169.254.0.1", "2852039166", "0xa9fea9fe", "0xA9.0xFE.1", "0251.0376.0251.0376",
        "169.254.43518", "[fe80::1]", "[fe80::1%25eth0]", "[febf::1]", "[fd00:ec2::254]", "[fd20:ce::254]",
        "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[::169.254.169.254]", "[64:ff9b::a9fe:a9fe]",
        "metadata.google.internal", "metadata.google.internal."}) {
    EXPECT_TRUE(is_link_local_host(host)) << host;
  }
}

TEST(LinkLocal, IsNoOtherHost) {
  for (const char* const host : {"", "h", "models.example", "127.0.0.1", "10.0.0.1", "169.253.255.255", "169.255.0.0",
                                 "2852126720", "[::1]", "[::]", "[fec0::1]", "[fd00::254]", "[::ffff:10.0.0.1]",
                                 "[64:ff9b::a00:1]", "[", "[]", "169.254.169.254.example"}) {
    EXPECT_FALSE(is_link_local_host(host)) << host;
  }
}

}  // namespace
}  // namespace tzmark
