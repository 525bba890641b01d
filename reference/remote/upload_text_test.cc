// Texts of uploads: what is sent, and what servers answer.
#include "remote/upload_text.h"

#include <gtest/gtest.h>

#include <vector>

namespace tzmark {
namespace {

TEST(UploadText, HasTheFirstElementOfThatName) {
  EXPECT_EQ(xml_text("<?xml?><R><Key>a</Key><UploadId>id-1</UploadId><UploadId>x</UploadId></R>", "UploadId"), "id-1");
  EXPECT_EQ(xml_text("<UploadId>a&amp;b&lt;c&gt;&quot;&apos;&amp;lt;&#43;&#x2B;</UploadId>", "UploadId"),
            "a&b<c>\"'&lt;++");
  for (const std::string& none : {std::string(), std::string("<UploadId>"), std::string("<UploadId>a"),
                                  std::string("<UploadId>a<b></UploadId>"), std::string("<UploadId>a&x;</UploadId>"),
                                  std::string("<UploadId>a&</UploadId>"), std::string("<UploadId>&#10;</UploadId>"),
                                  std::string("<UploadId>&#x100;</UploadId>"), std::string("<UploadId>&#;</UploadId>"),
                                  std::string("<UploadId>a</Upload>"), std::string("<UploadId>a\nb</UploadId>"),
                                  std::string("UploadId>a<"), "<UploadId>" + std::string(5000, 'x') + "</UploadId>"}) {
    EXPECT_EQ(xml_text(none, "UploadId"), "") << none;
  }
}

TEST(UploadText, CompletesWithEachPartInOrder) {
  const std::vector<std::string> etags = {"\"a\"", "<b&>"};
  EXPECT_EQ(completion_text(etags),
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>&quot;a&quot;</ETag></Part>"
            "<Part><PartNumber>2</PartNumber><ETag>&lt;b&amp;&gt;</ETag></Part></CompleteMultipartUpload>");
  EXPECT_EQ(completion_text({}), "<CompleteMultipartUpload></CompleteMultipartUpload>");
}

TEST(UploadText, TellsACompletionByItsResult) {
  EXPECT_TRUE(tells_completion("<?xml?> \n <CompleteMultipartUploadResult xmlns=\"http://s3\"><ETag>x</ETag></R>"));
  for (const char* const other : {"", " \n", "<?xml version=\"1.0\"?>  ", "<Error><Code>InternalError</Code></Error>",
                                  "<Error><Code xml:lang='en'>Internal_Error</Code></Error>",
                                  "<CompleteMultipartUpload/>", "<CompleteMultipartUploadResult/><Error/>"}) {
    EXPECT_FALSE(tells_completion(other)) << other;
  }
}

TEST(UploadText, HasHashesInHex) {
  Sha256Digest digest{};
  digest[0] = std::byte{0xAB};
  EXPECT_EQ(hex_text(digest), "ab" + std::string(62, '0'));
}

}  // namespace
}  // namespace tzmark
