// Random access to the plaintext of one tensor.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "bytes/pieces.h"
#include "codec/lanes.h"
#include "codec/reader_state.h"
#include "codec/secretbox.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

// A message that is larger than a piece is authenticated, and compared on its second read, in blocks of this size.
constexpr std::size_t kBlockBytesMax = 256 << 10;

// Decryption begins at multiples of 64 bytes, and a piece contains whole blocks.
std::size_t block_bytes(std::size_t piece_bytes) {
  return std::clamp<std::size_t>(piece_bytes / 64 * 64, 64, kBlockBytesMax);
}

std::span<const std::byte> mac_of(const Cipher& cipher, std::uint64_t message) {
  return cipher.macs.subspan(message * kMacBytes, kMacBytes);
}

}  // namespace

void throw_wrong_mac(std::uint64_t message, std::uint64_t file_offset) {
  throw Error(ErrorCode::kCryptMac, fmt::format("the MAC of message {} is wrong: wrong key, or changed data", message),
              file_offset);
}

void open_messages(const Cipher& cipher, const Key& key, std::span<const std::byte> ciphertext,
                   std::span<std::byte> plaintext, std::uint64_t first_message, std::uint64_t data_file_offset) {
  for (std::uint64_t message = first_message; !ciphertext.empty(); ++message) {
    const auto length = static_cast<std::size_t>(std::min<std::uint64_t>(cipher.message_bytes, ciphertext.size()));
    if (!open_message(key, message_nonce(cipher.nonce, message), mac_of(cipher, message), ciphertext.first(length),
                      plaintext.first(length))) {
      throw_wrong_mac(message, data_file_offset + message * cipher.message_bytes);
    }
    ciphertext = ciphertext.subspan(length);
    plaintext = plaintext.subspan(length);
  }
}

FileTensorStream::FileTensorStream(const ReaderState& state, std::size_t tensor)
    : FileTensorStream(state, tensor, read_header(*state.file, state.index, tensor)) {}

FileTensorStream::FileTensorStream(const ReaderState& state, std::size_t tensor, std::vector<std::byte> header)
    : state_(state),
      info_(state.index.tensors[tensor]),
      header_room_(std::move(header)),
      header_bytes_(decode_header(state.index, tensor, header_room_, header_)),
      expected_(state.index.layout, header_bytes_, header_, info_.header_offset),
      block_bytes_(block_bytes(state.options.piece_bytes)) {
  if (header_.crypt.cipher) {
    key_ = &state.keys.key_for(header_.crypt, info_.header_offset + header_.crypt_begin);
    const std::uint64_t message_bytes = header_.crypt.cipher->message_bytes;
    if (message_bytes > state.options.piece_bytes) {
      tagger_.emplace();
      tags_.resize(message_count(info_.data_length, message_bytes));
    }
  } else if (state.index.header.encrypted && !state.keys.has_key()) {
    // No tensor of an encrypted file is read without a key, not even one without data.
    throw Error(ErrorCode::kCryptKeyMissing, "the file is encrypted, and no key was given", info_.header_offset);
  }
}

std::size_t FileTensorStream::part_bytes(std::uint64_t offset, std::size_t limit) const {
  if (!header_.crypt.cipher) {
    const std::uint64_t begin = info_.data_offset + offset;
    const std::size_t part = aligned_part_bytes(begin, limit);
    const std::uint64_t left = info_.data_length - offset;
    // A read of its own for less than a page costs a device as much as for many.
    const bool takes_rest =
        left > part && left - part < kPartAlignBytes && begin % kPartAlignBytes + left <= limit + kPartAlignBytes;
    return takes_rest ? static_cast<std::size_t>(left) : part;
  }
  const std::uint64_t message = header_.crypt.cipher->message_bytes;
  if (message <= limit) return static_cast<std::size_t>(limit / message * message);
  // Parts of a long message begin where its blocks do.
  return static_cast<std::size_t>(
      std::min<std::uint64_t>(limit / block_bytes_ * block_bytes_, message - offset % message));
}

bool FileTensorStream::is_read_raw(std::size_t limit) const {
  return !header_.crypt.cipher || header_.crypt.cipher->message_bytes <= limit;
}

void FileTensorStream::decrypt(std::uint64_t offset, std::span<const std::byte> data,
                               std::span<std::byte> plaintext) const {
  if (header_.crypt.cipher) {
    const Cipher& cipher = *header_.crypt.cipher;
    open_messages(cipher, *key_, data, plaintext, offset / cipher.message_bytes, info_.data_offset);
  } else if (!data.empty() && data.data() != plaintext.data()) {
    std::memcpy(plaintext.data(), data.data(), data.size());
  }
}

void TensorStream::check_range(std::uint64_t offset, std::size_t bytes, std::uint64_t tensor_bytes) {
  if (offset > tensor_bytes || bytes > tensor_bytes - offset) {
    throw Error(ErrorCode::kUsage, fmt::format("{} bytes at {} of a tensor of {} bytes", bytes, offset, tensor_bytes));
  }
}

void FileTensorStream::read(std::uint64_t offset, MutableBuffer out) {
  check_range(offset, out.size, info_.data_length);
  if (out.size == 0) return;
  if (!header_.crypt.cipher) return state_.data().read_at(info_.data_offset + offset, out);
  if (out.kind == MemoryKind::kDevice) throw Error(ErrorCode::kUsage, "cannot decrypt into GPU memory");

  const std::uint64_t message_bytes = header_.crypt.cipher->message_bytes;
  const bool aligned =
      offset % message_bytes == 0 && (out.size % message_bytes == 0 || offset + out.size == info_.data_length);
  if (aligned) return read_messages(offset, out);
  if (message_bytes > state_.options.piece_bytes) return read_part(offset, out);

  // The messages that contain the range are short: decrypt all of them, and copy the range.
  const std::uint64_t begin = offset / message_bytes * message_bytes;
  const std::uint64_t end =
      std::min(info_.data_length, message_count(offset + out.size, message_bytes) * message_bytes);
  std::vector<std::byte> whole(end - begin);
  read_messages(begin, std::span(whole));
  std::memcpy(out.data, whole.data() + (offset - begin), out.size);
}

void FileTensorStream::read_messages(std::uint64_t offset, MutableBuffer out) {
  state_.data().read_at(info_.data_offset + offset, out);
  decrypt(offset, out.bytes(), out.bytes());
}

std::uint64_t FileTensorStream::message_length(std::uint64_t message) const {
  const std::uint64_t message_bytes = header_.crypt.cipher->message_bytes;
  return std::min(message_bytes, info_.data_length - message * message_bytes);
}

void FileTensorStream::read_part(std::uint64_t offset, MutableBuffer out) {
  const std::uint64_t message_bytes = header_.crypt.cipher->message_bytes;
  while (out.size > 0) {
    const std::uint64_t message = offset / message_bytes;
    const std::uint64_t in_message = offset % message_bytes;
    const auto length =
        static_cast<std::size_t>(std::min<std::uint64_t>(out.size, message_length(message) - in_message));
    authenticate(message);
    open_part(message, in_message, out.bytes().first(length));
    offset += length;
    out = out.sub(length, out.size - length);
  }
}

void FileTensorStream::authenticate(std::uint64_t message) {
  // The first thread reads the whole message; others wait, since no plaintext may be delivered before.
  const std::lock_guard lock(mutex_);
  if (!tags_[message].empty()) return;
  const Cipher& cipher = *header_.crypt.cipher;
  const std::uint64_t begin = info_.data_offset + message * cipher.message_bytes;
  MessageAuthenticator authenticator(*key_, message_nonce(cipher.nonce, message));
  std::vector<BlockTag> tags;
  for_each_piece(message_length(message), block_bytes_, [&](std::uint64_t offset, std::span<std::byte> block) {
    state_.data().read_at(begin + offset, block);
    authenticator.update(block);
    tags.push_back(tagger_->tag(block));
  });
  if (!authenticator.matches(mac_of(cipher, message))) throw_wrong_mac(message, begin);
  tags_[message] = std::move(tags);
}

// Decrypts a range of an authenticated message. Blocks that the range covers only in part use a temporary buffer.
void FileTensorStream::open_part(std::uint64_t message, std::uint64_t in_message, std::span<std::byte> out) {
  const std::uint64_t length = message_length(message);
  std::vector<std::byte> aside;
  while (!out.empty()) {
    const auto lead = static_cast<std::size_t>(in_message % block_bytes_);
    const bool to_the_end = in_message + out.size() == length;
    const std::size_t whole = lead != 0 ? 0 : to_the_end ? out.size() : out.size() / block_bytes_ * block_bytes_;
    std::size_t opened = whole;
    if (whole > 0) {
      open_blocks(message, in_message, out.first(whole));
    } else {
      const std::uint64_t begin = in_message - lead;
      aside.resize(static_cast<std::size_t>(std::min<std::uint64_t>(block_bytes_, length - begin)));
      open_blocks(message, begin, aside);
      opened = std::min(out.size(), aside.size() - lead);
      std::memcpy(out.data(), aside.data() + lead, opened);
    }
    in_message += opened;
    out = out.subspan(opened);
  }
}

// Compares each block with its tag before decrypting it, since the file may have changed since it was authenticated.
void FileTensorStream::open_blocks(std::uint64_t message, std::uint64_t in_message, std::span<std::byte> blocks) {
  const Cipher& cipher = *header_.crypt.cipher;
  const Nonce nonce = message_nonce(cipher.nonce, message);
  const std::uint64_t begin = info_.data_offset + message * cipher.message_bytes + in_message;
  state_.data().read_at(begin, blocks);
  for (std::size_t at = 0; at < blocks.size();) {
    const auto block = blocks.subspan(at, std::min(block_bytes_, blocks.size() - at));
    if (tagger_->tag(block) != tags_[message][(in_message + at) / block_bytes_]) {
      throw Error(ErrorCode::kFileChanged, "the data changed between two reads, and cannot be trusted", begin + at);
    }
    decrypt_part(*key_, nonce, in_message + at, block);
    at += block.size();
  }
}

}  // namespace tzmark
