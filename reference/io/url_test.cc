// URLs: parts, escapes, and what messages print of them.
#include "io/url.h"

#include <gtest/gtest.h>

#include "testing/caught.h"

namespace tzmark {
namespace {

TEST(Url, IsToldByItsScheme) {
  for (const char* const url : {"http://h", "HTTPS://h/x", "s3://bucket/key", "https://"})
    EXPECT_TRUE(is_url(url)) << url;
  for (const char* const name : {"", "http", "http:/h", "file:///x", "./http://h", "ftp://h/x", "s3:bucket", "-"}) {
    EXPECT_FALSE(is_url(name)) << name;
  }
}

TEST(Url, HasParts) {
  const Url url = parse_url("HTTPS://us%65r:p%40ss:w@Host.Example:8443/a/b%20c?x=1&y=/@#part");
  EXPECT_EQ(url.scheme, "https");
  EXPECT_EQ(url.user, "user");
  EXPECT_EQ(url.password, "p@ss:w");
  EXPECT_EQ(url.host, "host.example");
  EXPECT_EQ(url.port, "8443");
  EXPECT_EQ(url.path, "/a/b%20c");
  EXPECT_EQ(url.query, "?x=1&y=/@");
  EXPECT_EQ(url.address(), "https://host.example:8443/a/b%20c?x=1&y=/@");
  EXPECT_EQ(url.origin(), "https://host.example:8443");
}

TEST(Url, HasDefaults) {
  EXPECT_EQ(parse_url("http://h").address(), "http://h/");
  EXPECT_EQ(parse_url("http://h?q").address(), "http://h/?q");
  EXPECT_EQ(parse_url("http://h").origin(), "http://h:80");
  EXPECT_EQ(parse_url("https://h/").origin(), "https://h:443");
  EXPECT_EQ(parse_url("http://[::1]:81/x").host, "[::1]");
  EXPECT_EQ(parse_url("http://[::1]:81/x").port, "81");
  EXPECT_EQ(parse_url("http://[fe80::1]/x").origin(), "http://[fe80::1]:80");
}

TEST(Url, EncodesWhatAUrlMustNotContain) {
  EXPECT_EQ(parse_url("http://h/a b\"<\xC3\xA9").path, "/a%20b%22%3C%C3%A9");
  EXPECT_EQ(parse_url("http://h/100%25").path, "/100%25");
}

TEST(Url, RefusesWhatIsNone) {
  for (const char* const url :
       {"http://", "http:///x", "http://h:x/", "http://h:123456/", "http://h\n/", "http://h/\r\nX: y", "http://a b/",
        "http://user@/", "http://[::1/", "http://h\xC3\xA9/"}) {
    EXPECT_EQ(test::caught([&] { parse_url(url); }).code, ErrorCode::kUsage) << url;
  }
  EXPECT_EQ(test::caught([] { parse_url("http://h/" + std::string(20'000, 'x')); }).code, ErrorCode::kUsage);
}

TEST(Url, IsPrintedWithoutSecrets) {
  EXPECT_EQ(display_name("/models/a?b@c"), "/models/a?b@c");
  EXPECT_EQ(display_name("ftp://u:sec/ret@h/a"), "ftp://...@h/a") << "meant as a URL";
  EXPECT_EQ(display_name("a@b://c"), "a@b://c");
  EXPECT_EQ(display_name("https://h:1/a/b.tensors"), "https://h:1/a/b.tensors");
  EXPECT_EQ(display_name("https://u:secret@h/a?sig=secret#secret"), "https://h/a?...");
  EXPECT_EQ(display_name("https://secret@h?secret"), "https://h?...");
  EXPECT_EQ(display_name("s3://bucket/a key?"), "s3://bucket/a key?");
  EXPECT_EQ(display_name("s3://id:secret@bucket/key"), "s3://bucket/key");
  EXPECT_EQ(display_name("s3://id:sec/ret@bucket/key"), "s3://...");
  EXPECT_EQ(display_name("s3://bucket"), "s3://bucket");
  for (const char* const odd : {"http://u:sec/ret@h/", "http://u:sec?ret@h/", "http://u:12/sec/ret@h/",
                                "http://u:12#ret@h/", "http://u:12?ret@h/", "http://secret ", "http://u:p@[secret"}) {
    EXPECT_EQ(display_name(odd).find("secret"), std::string::npos) << odd;
    EXPECT_EQ(display_name(odd).find("ret@"), std::string::npos) << odd;
  }
}

TEST(Url, OfAMessageHasNoSecrets) {
  EXPECT_EQ(without_secrets("tzmark: a b: http://u:secret@h/x: cannot open"), "tzmark: a b: http://h/x: cannot open");
  EXPECT_EQ(without_secrets("'HTTPS://u:secret@h/x?sig=secret', 2 s"), "'https://h/x?...', 2 s");
  EXPECT_EQ(without_secrets("--file=s3://id:secret@bucket/key"), "--file=s3://bucket/key");
  EXPECT_EQ(without_secrets("(http://u:sec/ret@h/)"), "(http://...)");
  EXPECT_EQ(without_secrets("'https://u:'ecret@[::1]:8443/a' b"), "'https://[::1]:8443/a' b");
  EXPECT_EQ(without_secrets("https://u:80 \"ecret@h/a: b"), "https://h/a: b");
  EXPECT_EQ(without_secrets("https://u:se cret@ret@h\na@b"), "https://h\na@b");
  EXPECT_EQ(without_secrets("http://h/ a@b http://u:secret@h"), "http://h/ a@b http://h");
  EXPECT_EQ(without_secrets("http://u#'secret@h/a"), "http://u");
  EXPECT_EQ(without_secrets("http://u:12?'secret@h/a"), "http://...");
  EXPECT_EQ(without_secrets("a://http://u:secret@h/"), "a://http://h/");
  // A password with a quotation mark and a slash; behind a whole URL, another one is not a part of it.
  EXPECT_EQ(without_secrets("http://u:1'ecre/t@h/a: b"), "http://...: b");
  EXPECT_EQ(without_secrets("http://u:a'b/c@d'secret@h/ b"), "http://... b");
  EXPECT_EQ(without_secrets("http://u:secret@b'c/secret@h/ b"), "http://... b");
  EXPECT_EQ(without_secrets("'http://h/a','http://u:secret@h/'"), "'http://h/a','http://h/'");
  EXPECT_EQ(without_secrets("http://u:secret@h/a,s3://v:secret@h/b c"), "http://... c");
  // A query as a message shows one.
  EXPECT_EQ(without_secrets("http://u:secret@h/a?...: b"), "http://h/a?...: b");
  for (const char* const plain :
       {"", " ", "tzmark: a: error TZE-ENV-001: cannot open: No such file\n", "http://h/x?...: error", "a://b c@d",
        "http://h:80/a@b", "file://u:p@h", "://", "x://"}) {
    const std::string expected = std::string(plain) == "http://h:80/a@b" ? "http://..." : plain;
    EXPECT_EQ(without_secrets(plain), expected);
  }
}

TEST(Url, HasSiblings) {
  EXPECT_EQ(last_part_of_url("https://h/a/b.json?x=/y"), "b.json");
  EXPECT_EQ(last_part_of_url("https://h"), "");
  EXPECT_EQ(last_part_of_url("s3://b/a/k?y"), "k?y");
  EXPECT_EQ(sibling_url("https://u:p@h/a/b.json?x=/y", "c 1?.bin"), "https://u:p@h/a/c%201%3F.bin");
  EXPECT_EQ(sibling_url("s3://b/a/k", "c 1?.bin"), "s3://b/a/c 1?.bin");
}

TEST(Url, IsNoFileOfThisMachine) {
  EXPECT_EQ(test::caught([] { require_local("https://u:secret@h/"); }).code, ErrorCode::kUsage);
  EXPECT_EQ(test::message_of([] { require_local("https://u:secret@h/"); }).find("secret"), std::string::npos);
  EXPECT_EQ(test::caught([] { require_local("https"); }).code, std::nullopt);
}

}  // namespace
}  // namespace tzmark
