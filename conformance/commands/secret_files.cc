// Keys and passphrases in files; see secret_files.h.
#include "commands/secret_files.h"

#include <fmt/format.h>

#include "model/text.h"
#include "runner/errors.h"
#include "runner/file_content.h"

namespace tzmark::conformance {
namespace {

constexpr std::size_t kKeyBytes = 32;
constexpr std::size_t kSecretMaxBytes = 1 << 20;
constexpr const char* kBlanks = " \t\r\n";

std::string key_hex_of(const std::string& key_file) {
  const std::vector<std::byte> content = read_named_file(key_file, kSecretMaxBytes);
  if (content.size() == kKeyBytes) return model::hex_digits(content);
  std::string text(model::text_of(content));
  text.erase(text.find_last_not_of(kBlanks) + 1);
  text.erase(0, text.find_first_not_of(kBlanks));
  if (text.size() != 2 * kKeyBytes || text.find_first_not_of("0123456789abcdefABCDEF") != text.npos) {
    throw UsageError(fmt::format("{} holds neither 32 raw bytes nor 64 hex digits", key_file));
  }
  return text;
}

}  // namespace

mutation::FileSecret secret_of_files(const std::string& key_file, const std::string& passphrase_file) {
  mutation::FileSecret secret;
  if (!key_file.empty()) secret.key_hex = key_hex_of(key_file);
  if (passphrase_file.empty()) return secret;
  std::string text(model::text_of(read_named_file(passphrase_file, kSecretMaxBytes)));
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  if (!model::is_utf8(text)) {
    throw UsageError(
        fmt::format("{}: the passphrase is not UTF-8; convert the file, for example with iconv", passphrase_file));
  }
  secret.passphrase = text;
  return secret;
}

}  // namespace tzmark::conformance
