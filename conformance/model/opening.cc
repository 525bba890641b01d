// Opens the data of encrypted tensors; see opening.h.
#include "model/opening.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <utility>

#include "model/text.h"

namespace tzmark::conformance::model {
namespace {

// FORMAT.md 11.3.
constexpr std::uint64_t kMemlimitMaxBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kOpslimitMax = 4;
constexpr std::size_t kDerivationsMax = 8;
// Bytes times passes that keys beyond these limits may take together; takes about a second.
constexpr std::uint64_t kWorkBeyondLimitsMax = kMemlimitMaxBytes;

constexpr std::uint64_t kFlagsOffset = 9;
constexpr std::uint64_t kDataVersionOffset = 5;

unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }
const unsigned char* raw(Bytes bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); }

// The values of the payload, which is the one structure in a body.
const ParsedStructure& payload(const ParsedStructure& body) { return body.children.at(0); }

std::uint64_t chunk_type(const ParsedStructure& body) { return body.find("chunk_type")->number; }

// Decrypts a message in place whether or not its MAC is right, and says whether it is.
bool unseal(std::span<std::byte> data, const Message& message, Bytes mac, const std::array<std::uint8_t, 32>& key) {
  // The first 32 bytes of the key stream are the key of the MAC; the text is encrypted with what follows.
  std::vector<unsigned char> padded(crypto_onetimeauth_KEYBYTES + data.size(), 0);
  const auto text = padded.begin() + crypto_onetimeauth_KEYBYTES;
  std::copy_n(raw(data), data.size(), text);
  crypto_stream_xsalsa20_xor(padded.data(), padded.data(), padded.size(), message.nonce.data(), key.data());
  const bool right = mac.empty() || crypto_onetimeauth_verify(raw(mac), raw(data), data.size(), padded.data()) == 0;
  std::copy(text, padded.end(), raw(data.data()));
  return right;
}

}  // namespace

std::vector<const ParsedStructure*> crypt_chunk_bodies(const ParsedStructure& header) {
  std::vector<const ParsedStructure*> bodies;
  for (const ParsedStructure& block : header.children) {
    if (block.structure != &kCryptBlock || block.children.empty()) continue;
    for (const ParsedStructure& chunk : block.children[0].children) {
      if (!chunk.children.empty() && chunk.children[0].find("chunk_type")) bodies.push_back(&chunk.children[0]);
    }
  }
  return bodies;
}

const ParsedStructure* cipher_of(const ParsedStructure& header) {
  for (const ParsedStructure* body : crypt_chunk_bodies(header)) {
    const std::uint64_t type = chunk_type(*body);
    if (type == kChunkParallel || type == kChunkSequential) return body;
  }
  return nullptr;
}

std::vector<Message> messages_of(Bytes file, const ParsedStructure& cipher, std::uint64_t data_length) {
  const ParsedStructure& fields = payload(cipher);
  const Value* nonce = fields.find("nonce");
  if (!nonce) return {};
  std::vector<Message> messages;
  Message message{0, data_length, {}, fields.find("mac")};
  std::copy_n(raw(file.subspan(nonce->offset)), message.nonce.size(), message.nonce.begin());
  if (chunk_type(cipher) == kChunkSequential) return {message};
  const Value* chunk_size = fields.find("chunk_size");
  // A MAC has 16 bytes, so as many messages of 16 bytes fit into memory as the data has.
  if (chunk_size->number < crypto_onetimeauth_BYTES) return {};
  for (std::size_t i = 0; message.offset < data_length; ++i) {
    message.size = std::min(chunk_size->number, data_length - message.offset);
    message.mac = i < fields.children.size() ? fields.children[i].find("mac") : nullptr;
    messages.push_back(message);
    message.offset += message.size;
    sodium_increment(message.nonce.data(), message.nonce.size());
  }
  return messages;
}

void Opener::check_secret() {
  const bool has_secret = secret_->key || secret_->passphrase;
  const std::uint64_t version = reading_->layout->data_version;
  if (has_secret && !reading_->encrypted) {
    notes_->defect({.rule = "TZR-CRY-017",
                    .offset = version < 4 ? kDataVersionOffset : kFlagsOffset,
                    .wanted = Words{"a key is given, and the file is not encrypted"}});
  }
  if (has_secret || !reading_->encrypted) return;
  const auto& tensors = reading_->tensors;
  const auto with_data =
      std::find_if(tensors.begin(), tensors.end(), [](const Tensor& t) { return t.data_length > 0; });
  if (with_data == tensors.end()) return;
  notes_->defect({.rule = "TZR-CRY-018",
                  .offset = version < 4 ? kDataVersionOffset : kFlagsOffset,
                  .wanted = Words{"the file is encrypted, and no key is given"}});
}

bool Opener::takes_work_beyond_limits(std::uint64_t opslimit, std::uint64_t memlimit) {
  const std::uint64_t left = kWorkBeyondLimitsMax - work_beyond_limits_;
  if (memlimit > kMemlimitMaxBytes || (memlimit > 0 && opslimit > left / memlimit)) return false;
  work_beyond_limits_ += opslimit * memlimit;
  return true;
}

std::optional<Opener::Key> Opener::derive(std::size_t tensor, const ParsedStructure& body) {
  const ParsedStructure& fields = payload(body);
  const std::uint64_t opslimit = fields.find("opslimit")->number;
  const std::uint64_t memlimit = fields.find("memlimit")->number;
  const auto alg = static_cast<std::int32_t>(fields.find("alg")->number);
  const Value& salt = *fields.find("salt");
  const std::string_view salt_text = text_of(file_.subspan(salt.offset, salt.size));
  const KeyDerivation derivation = notes_->key_kept_under({opslimit, memlimit, alg, std::string(salt_text)});
  if (const auto known = derived_.find(derivation); known != derived_.end()) return known->second;
  const bool capped = opslimit <= kOpslimitMax && memlimit <= kMemlimitMaxBytes;
  if (!capped || derived_.size() >= kDerivationsMax) {
    Defect defect{.rule = "TZR-CRY-015", .offset = fields.begin, .structure = {kTensorHeader.name, tensor}};
    if (capped) {
      defect.wanted = Words{fmt::format("the file needs more than {} key derivations", kDerivationsMax)};
    } else {
      defect.clause = Clause::kDerivation;
      defect.field = opslimit > kOpslimitMax ? "opslimit" : "memlimit";
      defect.got = Numbers{opslimit, memlimit};
      defect.wanted = Numbers{kOpslimitMax, kMemlimitMaxBytes};
    }
    const bool refused = notes_->defect(std::move(defect));
    if (refused || !takes_work_beyond_limits(opslimit, memlimit)) return std::nullopt;
  }
  if (salt.size != crypto_pwhash_SALTBYTES) return std::nullopt;
  Key key;
  const std::string& passphrase = *secret_->passphrase;
  errno = 0;
  const int failed = crypto_pwhash(key.data(), key.size(), passphrase.data(), passphrase.size(),
                                   reinterpret_cast<const unsigned char*>(salt_text.data()), opslimit, memlimit, alg);
  // Numbers that no derivation takes come this far only where the rules against them are left out.
  if (failed && errno == EINVAL) return std::nullopt;
  if (failed) throw std::runtime_error(fmt::format("a key derivation in {} bytes of memory failed", memlimit));
  derived_.emplace(derivation, key);
  return key;
}

std::optional<Opener::Key> Opener::key_for(std::size_t tensor, const ParsedStructure& header) {
  if (secret_->key) return secret_->key;
  if (!secret_->passphrase) return std::nullopt;
  for (const ParsedStructure* body : crypt_chunk_bodies(header)) {
    if (chunk_type(*body) == kChunkKeyDerivation && payload(*body).find("salt")) return derive(tensor, *body);
  }
  notes_->defect({.rule = "TZR-CRY-019",
                  .offset = header.begin,
                  .structure = {kTensorHeader.name, tensor},
                  .wanted = Words{"no key derivation chunk, and only a passphrase is given"}});
  return std::nullopt;
}

std::optional<std::vector<std::byte>> Opener::open(std::size_t i) {
  const Tensor& tensor = reading_->tensors[i];
  const std::uint64_t size = std::min<std::uint64_t>(tensor.data_length, file_.size() - *tensor.data_offset);
  const Bytes stored = file_.subspan(*tensor.data_offset, size);
  std::vector<std::byte> data(stored.begin(), stored.end());
  if (!reading_->encrypted || data.empty() || !tensor.header) return data;
  const ParsedStructure* cipher = cipher_of(*tensor.header);
  if (!cipher) return data;
  const std::optional<Key> key = key_for(i, *tensor.header);
  if (!key && secret_->passphrase) return std::nullopt;
  if (!key) return data;
  bool right = true;
  for (const Message& message : messages_of(file_, *cipher, size)) {
    const Bytes mac = message.mac ? file_.subspan(message.mac->offset, message.mac->size) : Bytes();
    const bool unsealed = unseal(std::span(data).subspan(message.offset, message.size), message, mac, *key);
    if (!right || unsealed) continue;
    right = !notes_->defect({.rule = "TZR-CRY-016",
                             .offset = message.mac->offset,
                             .clause = Clause::kMac,
                             .structure = {kTensorHeader.name, i},
                             .field = "mac",
                             .got = message.offset});
  }
  return data;
}

}  // namespace tzmark::conformance::model
