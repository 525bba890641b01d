// Random tensors and files of them; see content.h.
#include "subjects/content.h"

#include <fmt/format.h>
#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "harness/page_cache.h"
#include "tzmark/error.h"
#include "tzmark/safetensors.h"

namespace tzmark::bench {
namespace {

constexpr std::size_t kVersionedBytes = 4096;

}  // namespace

TensorTable table_of(const Workload& workload) {
  TensorTable table;
  for (const TensorShape& tensor : workload.tensors) {
    table.add({tensor.name}, Kind::kStateDict, dtype_from_name(tensor.dtype), tensor.shape);
  }
  return table;
}

TensorContent::TensorContent(Workload workload, std::uint64_t memory_bytes_max)
    : workload_(std::move(workload)), table_(table_of(workload_)) {
  std::uint64_t end = 0;
  offsets_.reserve(workload_.tensors.size() + 1);
  for (const TensorShape& tensor : workload_.tensors) {
    offsets_.push_back(end);
    end += tensor.data_bytes();
  }
  offsets_.push_back(end);
  memory_ = HostMemory(std::min(end, memory_bytes_max));
  // Random bytes, which neither a file system nor a disk can compress.
  unsigned char seed[randombytes_SEEDBYTES];
  if (::sodium_init() < 0) throw Error(ErrorCode::kResource, "libsodium finds no random numbers");
  randombytes_buf(seed, sizeof seed);
  if (end > 0) randombytes_buf_deterministic(memory_.bytes().data(), memory_.bytes().size(), seed);
}

std::uint64_t TensorContent::make_version(std::uint64_t version) const {
  if (version == version_) return version;
  version_ = version;
  newest_version_ = std::max(newest_version_, version);
  // The drivers of peers do the same: bench/peers/driver.py.
  for (std::size_t i = 0; i < table_.size(); ++i) {
    const std::span<const std::byte> tensor = (*this)[i];
    for (std::size_t at = 0; at + sizeof version <= tensor.size(); at += kVersionedBytes) {
      std::memcpy(const_cast<std::byte*>(tensor.data()) + at, &version, sizeof version);
    }
  }
  return version;
}

MemorySource TensorContent::source() const {
  std::vector<ConstBuffer> tensors;
  tensors.reserve(table_.size());
  for (std::size_t i = 0; i < table_.size(); ++i) tensors.emplace_back((*this)[i]);
  return MemorySource(std::move(tensors));
}

std::string_view bench_key_hex() { return "746d61726b2062656e63682c206e6f742061207365637265742e2e2e2e2e2e2e"; }

WriteOptions write_options(const FileFormat& stored) {
  WriteOptions options;
  options.layout = stored.layout;
  options.crc32 = stored.crc32;
  options.sha256 = stored.sha256;
  options.unhashed = true;
  if (stored.encrypted) options.encrypt.emplace(EncryptOptions{key_from_hex(bench_key_hex())});
  return options;
}

ReadOptions read_options(bool encrypted) {
  ReadOptions options;
  if (encrypted) options.key.emplace(key_from_hex(bench_key_hex()));
  return options;
}

void require_same_content(const std::string& file_name, const TensorContent& content, bool encrypted) {
  const Reader reader = Reader::open(file_name, read_options(encrypted));
  const LoadedTensors loaded = reader.load(Verification::kNone);
  if (loaded.size() != content.table().size()) {
    throw Error(ErrorCode::kFileChanged,
                fmt::format("{} has {} tensors instead of {}", file_name, loaded.size(), content.table().size()));
  }
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    const auto found = reader.find(content.workload().tensors[i].name);
    if (!found || !std::ranges::equal(loaded[*found], content[i])) {
      throw Error(ErrorCode::kFileChanged,
                  fmt::format("{}: tensor '{}' has wrong data", file_name, content.workload().tensors[i].name));
    }
  }
}

Workplace::Workplace(const std::string& directory) : directory_(directory) {}

std::string Workplace::new_name(std::string_view suffix) {
  return fmt::format("{}/{}{}", directory_.name(), names_++, suffix);
}

const std::string& Workplace::file(const std::shared_ptr<const TensorContent>& content, const FileFormat& stored,
                                   Cache cache) {
  Made& made = files_[{content, stored, cache}];
  if (made.name.empty()) {
    const std::uint64_t version = content->make_new_version();
    const std::string name = new_name(".tensors");
    write_file(name, content->table(), content->source(), write_options(stored));
    Reader::open(name, read_options(stored.encrypted)).verify();
    if (cache == Cache::kWarm) static_cast<void>(warm_anew(name));
    made = {name, version};
  }
  content->make_version(made.version);
  return made.name;
}

const std::string& Workplace::raw_file(const std::shared_ptr<const TensorContent>& content, Cache cache) {
  Made& made = raw_files_[{content, cache}];
  if (made.name.empty()) {
    const std::uint64_t version = content->make_new_version();
    const std::string name = new_name(".raw");
    const auto file = open_file(name, OpenMode::kCreate);
    file->write_at(0, content->bytes());
    file->sync();
    if (cache == Cache::kWarm) static_cast<void>(warm_anew(name));
    made = {name, version};
  }
  content->make_version(made.version);
  return made.name;
}

const std::string& Workplace::safetensors_file(const std::shared_ptr<const TensorContent>& content) {
  Made& made = safetensors_files_[content];
  if (made.name.empty()) {
    const std::uint64_t version = content->make_new_version();
    const std::string name = new_name(".safetensors");
    const MemorySource source = content->source();
    write_safetensors(name, content->table(), source, {});
    static_cast<void>(warm_anew(name));
    made = {name, version};
  }
  content->make_version(made.version);
  return made.name;
}

std::vector<std::string> Workplace::forget() {
  std::vector<std::string> names;
  for (const auto& [key, made] : files_) names.push_back(made.name);
  for (const auto& [key, made] : raw_files_) names.push_back(made.name);
  for (const auto& [key, made] : safetensors_files_) names.push_back(made.name);
  files_.clear();
  raw_files_.clear();
  safetensors_files_.clear();
  return names;
}

void Workplace::clear() {
  files_.clear();
  raw_files_.clear();
  safetensors_files_.clear();
  directory_.clear();
}

}  // namespace tzmark::bench
