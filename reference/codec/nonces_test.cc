// No nonce is used twice: over many tensors of a file, and over what is appended, edited and encrypted again.
//
// TZMARK_TEST_TENSORS=1000000 writes that many tensors in place of 50,000.
#include <cstdlib>
#include <string>
#include <unordered_set>

#include "codec/secretbox.h"
#include "testing/files/edits.h"

namespace tzmark {
namespace {

using test::Content;

std::size_t tensor_count() {
  const char* const text = std::getenv("TZMARK_TEST_TENSORS");
  return text == nullptr ? 50'000 : std::strtoull(text, nullptr, 10);
}

WriteOptions sealed() {
  WriteOptions options;
  options.encrypt = test::with_key(1024);
  return options;
}

Content numbered(const std::string& prefix, std::size_t count, std::uint64_t data_bytes) {
  Content content;
  for (std::size_t i = 0; i < count; ++i) content.add({prefix + std::to_string(i)}, "uint8", {data_bytes});
  return content;
}

class NoncesTest : public test::EditTest {
 protected:
  // The nonces of all messages of the file. Each is there once.
  std::unordered_set<std::string> of_messages() const {
    std::unordered_set<std::string> nonces;
    reader().check_headers([&](std::size_t, const TensorHeader& header, std::span<const std::byte>) {
      for (std::size_t i = 0; i < header.crypt.cipher->macs.size() / kMacBytes; ++i) {
        const Nonce nonce = message_nonce(header.crypt.cipher->nonce, i);
        EXPECT_TRUE(nonces.emplace(nonce.begin(), nonce.end()).second) << "a nonce is used twice in one file";
      }
    });
    return nonces;
  }

  static std::size_t shared(const std::unordered_set<std::string>& a, const std::unordered_set<std::string>& b) {
    return static_cast<std::size_t>(
        std::ranges::count_if(a, [&](const std::string& nonce) { return b.contains(nonce); }));
  }
};

TEST_F(NoncesTest, AreUsedOnceInAFileOfManyTensors) {
  const std::size_t count = tensor_count();
  put(numbered("t", count, 8), sealed());
  EXPECT_EQ(of_messages().size(), count);
}

TEST_F(NoncesTest, AreNewInWhatIsAppendedOrEncryptedAgain) {
  constexpr std::size_t kCount = 2'000;
  // Three messages each.
  const Content content = numbered("t", kCount, 3'000);
  put(content, sealed());
  const auto first = of_messages();
  ASSERT_EQ(first.size(), 3 * kCount);

  append(numbered("u", kCount, 3'000), sealed());
  const auto appended = of_messages();
  EXPECT_EQ(appended.size(), 6 * kCount);
  EXPECT_EQ(shared(first, appended), first.size()) << "what was there stays as it was encrypted";

  EditOptions options;
  options.key = test::key_options().key;
  edit({{.tensor = {"t0"}, .new_path = Path{"renamed"}}, {.tensor = {"t1"}, .drop = true}}, std::move(options));
  const auto edited = of_messages();
  EXPECT_EQ(edited.size(), 6 * kCount - 3);
  EXPECT_EQ(shared(edited, appended), edited.size()) << "the data stays in place";

  Content again;
  again.add({"t1"}, "uint8", {3'000});
  append(again, sealed());
  EXPECT_EQ(shared(of_messages(), appended), edited.size()) << "a tensor of a dropped name gets another nonce";

  // The same content under the same key.
  put(content, sealed());
  EXPECT_EQ(shared(of_messages(), appended), 0U);
}

}  // namespace
}  // namespace tzmark
