// Opens the data of encrypted tensors: key derivation, MACs, decryption.
//
// Thread-safety: one object belongs to one thread. It refers to the file, the secret and the notes.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "model/reading.h"

namespace tzmark::conformance::model {

// The bodies of the crypt chunks of a header, those that have a type.
std::vector<const ParsedStructure*> crypt_chunk_bodies(const ParsedStructure& header);

// The body of the cipher chunk; null if there is none.
const ParsedStructure* cipher_of(const ParsedStructure& header);

// A message that is encrypted under its own nonce.
struct Message {
  std::uint64_t offset;  // in the data
  std::uint64_t size;
  std::array<unsigned char, 24> nonce;
  const Value* mac;  // null if the block has too few
};

// Empty if the numbers of the chunk make no sense.
std::vector<Message> messages_of(Bytes file, const ParsedStructure& cipher, std::uint64_t data_length);

class Opener {
 public:
  Opener(Bytes file, const Secret& secret, const Reading& reading, Notes& notes)
      : file_(file), secret_(&secret), reading_(&reading), notes_(&notes) {}

  // Notes defects of the secret, such as a key for a plain file.
  void check_secret();

  // Returns the plaintext; the stored bytes if there is no secret or a MAC is wrong, and nothing if the passphrase
  // gives no key. Notes why. Throws std::runtime_error if there is no memory to derive the key. REQUIRES: the tensor's
  // data_offset is known.
  std::optional<std::vector<std::byte>> open(std::size_t tensor);

  using Key = std::array<std::uint8_t, 32>;

  // The key of this tensor by its header. Notes why there is none, and throws as open does.
  std::optional<Key> key_for(std::size_t tensor, const ParsedStructure& header);

 private:
  std::optional<Key> derive(std::size_t tensor, const ParsedStructure& body);
  // Whether a derivation beyond the limits is cheap enough for a reader that ignores them; counts its cost if so.
  bool takes_work_beyond_limits(std::uint64_t opslimit, std::uint64_t memlimit);

  Bytes file_;
  const Secret* secret_;
  const Reading* reading_;
  Notes* notes_;
  std::map<KeyDerivation, Key> derived_;
  std::uint64_t work_beyond_limits_ = 0;  // bytes times passes
};

}  // namespace tzmark::conformance::model
