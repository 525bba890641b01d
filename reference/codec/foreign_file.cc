// Recognizing files by their first bytes.
#include "codec/foreign_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <vector>

#include "bytes/cursor.h"
#include "bytes/utf8.h"

namespace tzmark {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kFetchAgain = "fetch it again";
constexpr std::string_view kConvertPickle =
    "load it with torch.load(FILE, weights_only=True), and save its tensors with tzmark.torch.save_file";

// what: empty if the advice says it all.
struct Look {
  std::string what, advice;
};

// The beginning of a file whose first bytes tell what it is.
struct Magic {
  std::string_view bytes, what, advice;
};

constexpr std::array kMagics = {
    Magic{"\x1f\x8b\x08"sv, "a gzip file", "decompress it with gunzip"},
    Magic{"\x28\xb5\x2f\xfd"sv, "a Zstandard file", "decompress it with unzstd"},
    Magic{"\xfd"
          "7zXZ\0"sv,
          "an xz file", "decompress it with unxz"},
    Magic{"BZh91AY&SY"sv, "a bzip2 file", "decompress it with bunzip2"},
    Magic{"GGUF"sv, "a GGUF file of llama.cpp", "get the model in the format that it was made from"},
    Magic{"\x89HDF\r\n\x1a\n"sv, "an HDF5 file, such as Keras writes",
          "load it with Keras, and save its weights with tzmark.save_file"},
    Magic{"\x93NUMPY"sv, "an .npy file of NumPy", "load it with numpy.load, and save it with tzmark.save_file"},
};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// Leaves out a byte order mark and white space.
std::string_view without_blanks(std::string_view head) {
  if (head.starts_with("\xef\xbb\xbf")) head.remove_prefix(3);
  const auto* const begin = std::ranges::find_if_not(head, is_blank);
  return head.substr(static_cast<std::size_t>(begin - head.begin()));
}

bool begins_with_word(std::string_view text, std::string_view word) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return text.size() >= word.size() && std::ranges::equal(text.substr(0, word.size()), word, {}, lower);
}

// A pointer is text with the size of the file that it stands for.
std::optional<Look> look_for_lfs_pointer(std::string_view head) {
  const bool is_pointer = head.starts_with("version https://git-lfs.github.com/spec/") ||
                          head.starts_with("version https://hawser.github.com/spec/");
  if (!is_pointer) return std::nullopt;
  Look look{"a Git LFS pointer", "run `git lfs pull` in its repository"};
  constexpr std::string_view kSize = "\nsize ";
  std::uint64_t bytes = 0;
  if (const auto at = head.find(kSize); at != head.npos) {
    const std::string_view digits = head.substr(at + kSize.size());
    if (std::from_chars(digits.data(), digits.data() + digits.size(), bytes).ec == std::errc()) {
      look.what += fmt::format(" to a file of {} bytes", bytes);
    }
  }
  return look;
}

std::optional<Look> look_for_page(std::string_view head) {
  const std::string_view text = without_blanks(head);
  for (const std::string_view begin : {"<!doctype html"sv, "<html"sv, "<head"sv, "<!--"sv}) {
    if (!begins_with_word(text, begin)) continue;
    return Look{"a web page (HTML)",
                "open it to see what the server said, and download the file itself (on Hugging Face: an address with "
                "/resolve/, and a token if the model needs one)"};
  }
  if (text.starts_with("<?xml") || text.starts_with("<Error>")) {
    return Look{"XML, such as the error message of an object store", "open it to see what the server said"};
  }
  return std::nullopt;
}

std::optional<Look> look_for_json(std::string_view head) {
  const std::string_view text = without_blanks(head);
  if (!text.starts_with('{') && !text.starts_with("[{")) return std::nullopt;
  // The length of a header of safetensors may be a brace, but is not followed by text.
  const std::string_view begin = head.substr(0, std::min<std::size_t>(head.size(), 2 * sizeof(std::uint64_t)));
  if (begin.size() < 2 || std::ranges::any_of(begin, [](char c) { return c >= 0 && c < ' ' && !is_blank(c); })) {
    return std::nullopt;
  }
  if (text.find("\"weight_map\"") != text.npos) {
    return Look{"an index of sharded safetensors", "name it NAME.safetensors.index.json, next to its shards"};
  }
  return Look{"JSON text, such as a configuration or the error message of a server",
              "open it to see what it is, and name the file with the tensors"};
}

// A small file that is text as a whole, such as "Entry not found". The beginning of a file of tzmark, and JSON of which
// the reader says more, are not meant.
std::optional<Look> look_for_text(std::string_view head, std::uint64_t file_bytes, ReadAs read_as) {
  constexpr std::size_t kBytesMin = 8, kShownBytes = 60;
  if (head.size() < kBytesMin || head.size() != file_bytes || head.starts_with("|TZ")) return std::nullopt;
  if (read_as == ReadAs::kShardIndex && without_blanks(head).starts_with('{')) return std::nullopt;
  const auto is_text = [](char c) { return (c >= ' ' && c <= '~') || is_blank(c); };
  if (!std::ranges::all_of(head, is_text)) return std::nullopt;
  std::string_view line = without_blanks(head);
  line = line.substr(0, std::min(line.find_first_of("\r\n"), kShownBytes));
  return Look{fmt::format("text, such as the message of a server (\"{}\")", line), std::string(kFetchAgain)};
}

// torch.save writes a zip, whose first entry is in most releases NAME/data.pkl.
std::optional<Look> look_for_zip(std::string_view head) {
  constexpr std::size_t kNameLengthAt = 26, kNameAt = 30;
  if (!head.starts_with("PK\x03\x04")) return std::nullopt;
  std::string_view name;
  if (head.size() > kNameAt) {
    name = head.substr(kNameAt, load<std::uint16_t>(std::as_bytes(std::span(head)), kNameLengthAt));
  }
  if (name.ends_with("/data.pkl") || head.find("/data.pkl") != head.npos) {
    return Look{"a checkpoint of torch.save (a zip with a pickle)", std::string(kConvertPickle)};
  }
  if (name.ends_with(".npy")) {
    return Look{"an .npz file of NumPy", "load it with numpy.load, and save its arrays with tzmark.save_file"};
  }
  return Look{"a zip archive", "unpack it, or if torch.save wrote it, " + std::string(kConvertPickle)};
}

// A pickle begins with its protocol; from 4 on, the length of a frame follows, and before that an opcode that pushes
// something.
std::optional<Look> look_for_pickle(std::string_view head) {
  if (head.size() < 3 || head[0] != '\x80' || head[1] < 2 || head[1] > 5) return std::nullopt;
  // The magic number of torch's format before its release 1.6.
  if (head.substr(2).starts_with("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"sv)) {
    return Look{"a checkpoint of torch.save in its format before 1.6 (a pickle)", std::string(kConvertPickle)};
  }
  const bool is_pickle = head[1] >= 4 ? head[2] == '\x95' : "}](cXU)KM\x8a"sv.find(head[2]) != ""sv.npos;
  if (!is_pickle) return std::nullopt;
  return Look{"a Python pickle, such as torch.save wrote before 1.6", std::string(kConvertPickle)};
}

std::optional<Look> look_for_tar(std::string_view head) {
  constexpr std::size_t kMagicAt = 257;
  if (head.size() < kMagicAt || !head.substr(kMagicAt).starts_with("ustar")) return std::nullopt;
  return Look{"a tar archive, such as a .nemo file", "unpack it with tar -x"};
}

// Walks over the fields of an ONNX model, which is protobuf and has no magic: the version of the format first, then
// fields with the numbers and types that ModelProto has, as far as the head goes.
class OnnxFields {
 public:
  OnnxFields(std::string_view head, std::uint64_t file_bytes) : head_(head), file_bytes_(file_bytes) {}

  bool fit() {
    constexpr std::uint64_t kVersionMax = 64;
    std::uint64_t fields = 0;
    bool has_content = false;
    for (; at_ < head_.size(); ++fields) {
      const std::uint64_t tag = number();
      if (!good_) break;
      const std::uint64_t field = tag >> 3;
      if (fields == 0) {
        const std::uint64_t version = tag == kVersionTag ? number() : 0;
        if (!good_ || version == 0 || version > kVersionMax) return false;
        continue;
      }
      if (field == kModelVersion && (tag & 7) == kVarint) {
        number();
        continue;
      }
      const bool is_text = field >= kProducerName && field <= kDocString && field != kModelVersion;
      if ((tag & 7) != kBytes || !(is_text || is_part(field))) return false;
      const std::uint64_t length = number();
      if (!good_) break;
      if (length > file_bytes_ - at_) return false;
      const std::string_view value =
          head_.substr(at_, static_cast<std::size_t>(std::min<std::uint64_t>(length, head_.size() - at_)));
      if (is_text && !is_plain_text(value)) return false;
      has_content = has_content || field == kGraph || field == kOpsetImport;
      if (length >= head_.size() - at_) {
        ++fields;
        break;
      }
      at_ += static_cast<std::size_t>(length);
    }
    // The version and two more.
    return fields >= 3 || (fields == 2 && has_content);
  }

 private:
  static constexpr std::uint64_t kVersionTag = 1 << 3, kVarint = 0, kBytes = 2;
  static constexpr std::uint64_t kProducerName = 2, kModelVersion = 5, kDocString = 6, kGraph = 7, kOpsetImport = 8;

  static bool is_part(std::uint64_t field) {
    constexpr std::uint64_t kMetadata = 14, kTraining = 20, kFunctions = 25;
    return field == kGraph || field == kOpsetImport || field == kMetadata || field == kTraining || field == kFunctions;
  }
  static bool is_plain_text(std::string_view value) {
    return std::ranges::none_of(value, [](char c) { return c >= 0 && c < ' ' && !is_blank(c); });
  }

  // Reads a varint; at the end of the head or after ten bytes, there is none.
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && at_ < head_.size(); shift += 7) {
      const auto byte = static_cast<unsigned char>(head_[at_++]);
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return value;
    }
    good_ = false;
    return 0;
  }

  const std::string_view head_;
  const std::uint64_t file_bytes_;
  std::size_t at_ = 0;
  bool good_ = true;
};

// The other format than the one that the file was read as.
std::optional<Look> look_for_own(std::string_view head, ReadAs read_as) {
  constexpr std::uint64_t kHeaderBytesMax = 100'000'000;
  if (read_as != ReadAs::kTensors && head.starts_with("|TZR|")) return Look{"a .tensors file", "read it as one"};
  if (read_as != ReadAs::kDetachedData && head.starts_with("|TZD|")) {
    return Look{"the detached data of a .tensors file", "name that file, and this one with --data-file"};
  }
  constexpr std::size_t kBraceAt = sizeof(std::uint64_t);
  if (read_as == ReadAs::kSafetensors || head.size() <= kBraceAt + 1) return std::nullopt;
  const auto length = load<std::uint64_t>(std::as_bytes(std::span(head)), 0);
  if (length < 2 || length > kHeaderBytesMax || head[kBraceAt] != '{') return std::nullopt;
  if (head[kBraceAt + 1] != '"' && head[kBraceAt + 1] != '}') return std::nullopt;
  return Look{"a safetensors file", "read it as one"};
}

std::optional<Look> look_at(std::string_view head, std::uint64_t file_bytes, ReadAs read_as) {
  if (file_bytes == 0) {
    return Look{"", fmt::format("the file is empty, as an interrupted download or copy leaves it: {}", kFetchAgain)};
  }
  if (auto look = look_for_lfs_pointer(head)) return look;
  if (auto look = look_for_page(head)) return look;
  if (auto look = look_for_zip(head)) return look;
  if (auto look = look_for_pickle(head)) return look;
  if (auto look = look_for_own(head, read_as)) return look;
  for (const Magic& magic : kMagics) {
    if (head.starts_with(magic.bytes)) return Look{std::string(magic.what), std::string(magic.advice)};
  }
  if (auto look = look_for_tar(head)) return look;
  if (read_as != ReadAs::kShardIndex) {
    if (auto look = look_for_json(head)) return look;
  }
  if (auto look = look_for_text(head, file_bytes, read_as)) return look;
  if (OnnxFields(head, file_bytes).fit()) {
    return Look{"an ONNX model", "load it with onnx.load, and save its initializers with tzmark.save_file"};
  }
  // A short run of zeros may be a damaged magic.
  constexpr std::size_t kZerosMin = 512;
  if (head.size() >= kZerosMin && std::ranges::all_of(head, [](char c) { return c == 0; })) {
    return Look{"", fmt::format("the file begins with zeros, as an interrupted download leaves it: {}", kFetchAgain)};
  }
  return std::nullopt;
}

std::string_view name_of(ReadAs read_as) {
  switch (read_as) {
    case ReadAs::kTensors:
      return "a .tensors file";
    case ReadAs::kDetachedData:
      return "the detached data of a .tensors file";
    case ReadAs::kSafetensors:
      return "a safetensors file";
    case ReadAs::kShardIndex:
      return "an index of shards";
  }
  return "";
}

}  // namespace

std::optional<std::string> describe_foreign(std::span<const std::byte> head, std::uint64_t file_bytes, ReadAs read_as) {
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  const std::optional<Look> look = look_at(text, file_bytes, read_as);
  if (!look) return std::nullopt;
  if (look->what.empty()) return look->advice;
  return fmt::format("this is not {}; it looks like {}: {}", name_of(read_as), look->what, look->advice);
}

Error with_foreign_description(const Error& error, File& file, ReadAs read_as) {
  try {
    std::vector<std::byte> head(static_cast<std::size_t>(std::min<std::uint64_t>(kForeignLookBytes, file.size())));
    file.read_at(0, std::span(head));
    if (auto text = describe_foreign(head, file.size(), read_as)) {
      return {error.code(), std::move(*text), error.offset()};
    }
  } catch (const std::exception&) {
    // What the caller has found stands.
  }
  return error;
}

}  // namespace tzmark
