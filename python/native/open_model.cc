// One open model file of either format, for the reader of the module. Knows nothing of Python.
#include "open_model.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include "memory_file.h"
#include "tzmark/error.h"
#include "tzmark/threads.h"
#include "tzmark/writer.h"

namespace tzmark::py {
namespace {

constexpr std::size_t kPieceBytes = 2 << 20;
// Of parts of a tensor that are read together, although bytes between them are not wanted.
constexpr std::size_t kBlockBytes = 4 << 20;
constexpr std::uint64_t kGapBytesMax = 64 << 10;
constexpr std::size_t kAlignBytes = 64;

// The elements of a tensor without stored values; none is larger.
alignas(kAlignBytes) constinit std::array<std::byte, 256> zeros{};

struct Allocation {
  std::shared_ptr<const void> owner;
  std::span<std::byte> bytes;
};

// Small allocations come from the heap, for a mapping per small tensor would waste pages.
Allocation allocate(std::uint64_t bytes, HostMemory::Pages pages) {
  const auto size = static_cast<std::size_t>(bytes);
  if (size >= kHugePageBytes) {
    auto memory = std::make_shared<HostMemory>(size, pages);
    const std::span<std::byte> view = memory->bytes().first(size);
    return {std::move(memory), view};
  }
  auto* const data =
      static_cast<std::byte*>(::operator new(std::max<std::size_t>(size, 1), std::align_val_t(kAlignBytes)));
  std::shared_ptr<const void> owner(static_cast<const void*>(data), [](const void* p) {
    ::operator delete(const_cast<void*>(p), std::align_val_t(kAlignBytes));
  });
  return {std::move(owner), {data, size}};
}

// Runs work on several threads until it returns false on each. The first exception ends all and is rethrown.
template <typename Work>
void run_on_threads(unsigned threads, const Work& work) {
  std::mutex mutex;
  std::exception_ptr error;
  std::atomic<bool> failed = false;
  const auto run = [&] {
    try {
      while (!failed && work()) {
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
      failed = true;
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      while (others.size() + 1 < threads) others.emplace_back(run);
    } catch (const std::system_error&) {
      // The threads that there are do all the work.
    }
    run();
  }
  if (error) std::rethrow_exception(error);
}

bool is_aligned(const void* data, std::uint64_t item_bytes) {
  // Of types with two parts, such as complex numbers, the parts need to be aligned; a check of the whole is stricter.
  const std::uint64_t unit = item_bytes & (~item_bytes + 1);
  return reinterpret_cast<std::uintptr_t>(data) % unit == 0;
}

// The contiguous parts of a slice, in order.
class Runs {
 public:
  Runs(std::span<const std::uint64_t> shape, std::span<const std::uint64_t> begin, std::span<const std::uint64_t> end,
       std::uint64_t item_bytes)
      : begin_(begin), end_(end), at_(begin.begin(), begin.end()), strides_(shape.size()) {
    std::uint64_t stride = item_bytes;
    for (std::size_t i = shape.size(); i-- > 0;) {
      strides_[i] = stride;
      stride *= shape[i];
    }
    outer_ = shape.size();
    length_ = item_bytes;
    // Whole inner dimensions, and the part of one more, are contiguous.
    while (outer_ > 0) {
      --outer_;
      length_ = strides_[outer_] * (end[outer_] - begin[outer_]);
      if (begin[outer_] != 0 || end[outer_] != shape[outer_]) break;
    }
    bytes_ = item_bytes;
    for (std::size_t i = 0; i < shape.size(); ++i) bytes_ *= end[i] - begin[i];
    is_done_ = bytes_ == 0;
  }

  std::uint64_t bytes() const { return bytes_; }  // of all runs
  std::uint64_t length() const { return length_; }
  bool is_done() const { return is_done_; }
  std::uint64_t offset() const {
    std::uint64_t offset = 0;
    for (std::size_t i = 0; i < strides_.size(); ++i) offset += at_[i] * strides_[i];
    return offset;
  }
  void advance() {
    for (std::size_t i = outer_; i-- > 0;) {
      if (++at_[i] < end_[i]) return;
      at_[i] = begin_[i];
    }
    is_done_ = true;
  }

 private:
  std::span<const std::uint64_t> begin_, end_;
  std::vector<std::uint64_t> at_, strides_;
  std::size_t outer_ = 0;  // dimensions outside of a run
  std::uint64_t length_ = 0, bytes_ = 0;
  bool is_done_ = false;
};

void require_unverified(Verification verify) {
  if (verify == Verification::kNone) return;
  throw Error(ErrorCode::kUsage,
              "mapped=True needs verify=False: the content of a mapping can change after its hashes were compared");
}

}  // namespace

TensorMemory copied(TensorMemory memory) {
  const Allocation copy = allocate(memory.bytes, HostMemory::Pages::kHuge);
  if (memory.bytes != 0) std::memcpy(copy.bytes.data(), memory.data, copy.bytes.size());
  memory.data = copy.bytes.data();
  memory.owner = copy.owner;
  return memory;
}

TensorMemory with_aligned_data(TensorMemory memory) {
  if (is_aligned(memory.data, memory.dtype.item_bytes)) return memory;
  return copied(std::move(memory));
}

ModelFile find_model(const OpenOptions& options) {
  if (!options.file_name.empty()) return open_model_file(options.file_name, options.read.io_path);
  ModelFile model;
  model.file = std::make_unique<ReadOnlyMemoryFile>(options.data);
  model.format = model_format(*model.file, "");
  return model;
}

OpenModel::OpenModel(OpenOptions options, ModelFile model)
    : file_name_(model.file_name),
      io_path_(options.read.io_path),
      is_mapped_(options.mapped),
      threads_(options.read.threads != 0 ? options.read.threads : core_count()),
      has_passphrase_(options.read.key && std::holds_alternative<Passphrase>(*options.read.key)),
      process_(::getpid()) {
  const Progress progress = [meter = meter_](std::uint64_t bytes) { meter->add(bytes); };
  const bool in_memory = file_name_.empty();
  if (is_mapped_ && io_path_ != "auto") {
    throw Error(ErrorCode::kUsage, "mapped=True excludes an I/O path: nothing is transferred");
  }
  if (is_mapped_ && (in_memory || file_name_ == "-")) {
    throw Error(ErrorCode::kUsage, "mapped=True needs the name of a file");
  }
  // A copy of standard input has no name that other files could lie next to.
  const bool is_named = !in_memory && file_name_ != "-";
  data_file_name_ = options.read.data_file_name.empty() ? file_name_ : options.read.data_file_name;
  if (model.format == ModelFormat::kSafetensors) {
    if (options.read.key) {
      throw Error(ErrorCode::kCryptNotEncrypted, "a key was given, but safetensors files are not encrypted");
    }
    SafetensorsReadOptions read;
    read.profile = options.profile;
    read.io_path = io_path_;
    read.threads = options.read.threads;
    read.progress = progress;
    safetensors_ = is_named ? SafetensorsReader::open(std::move(model.file), file_name_, std::move(read))
                            : SafetensorsReader(std::move(model.file), std::move(read));
  } else {
    options.read.progress = progress;
    tensors_ = is_named ? Reader::open(std::move(model.file), file_name_, std::move(options.read))
                        : Reader(std::move(model.file), std::move(options.read));
    if (is_mapped_ && tensors_->header().encrypted) {
      throw Error(ErrorCode::kUsage, "mapped=True excludes encrypted files: decryption needs memory of its own");
    }
  }
  mappings_.resize(safetensors_ ? safetensors_->shards().size() : 1);
}

std::size_t OpenModel::size() const { return tensors_ ? tensors_->tensors().size() : safetensors_->size(); }

std::uint64_t OpenModel::file_bytes() const { return tensors_ ? tensors_->file_bytes() : safetensors_->file_bytes(); }

void OpenModel::require_same_process() const {
  if (process_ == ::getpid()) return;
  if (path_traits(io_path_).is_fork_safe) return;
  throw Error(ErrorCode::kUsage, "the file was opened before a fork, and the I/O path " + io_path_ +
                                     " works in one process only: open the file again");
}

const TensorSource& OpenModel::source() const {
  if (tensors_) return *tensors_;
  return *safetensors_;
}

TensorTable OpenModel::writable_table() const {
  return tensors_ ? tzmark::writable_table(*tensors_) : safetensors_->tensor_table();
}

ModelTensor OpenModel::operator[](std::size_t tensor) const {
  ModelTensor result;
  if (tensors_) {
    const TensorInfo info = tensors_->tensors()[tensor];
    result.path = info.path();
    result.dtype = info.dtype;
    result.stored_dtype = info.dtype.wire;
    result.shape.assign(info.shape.begin(), info.shape.end());
    result.bytes = info.data_length;
    result.meta = info.meta();
    result.kind = kind_name(info.kind);
    return result;
  }
  const SafetensorsTensor info = (*safetensors_)[tensor];
  result.path = {std::string(info.name)};
  result.stored_dtype = info.dtype;
  result.shape.assign(info.shape.begin(), info.shape.end());
  result.bytes = info.data_length();
  result.kind = kind_name(Kind::kStateDict);
  // Types smaller than a byte have neither a torch name nor elements with addresses.
  result.dtype = dtype_from_name(info.torch_dtype.empty() ? "uint8" : info.torch_dtype);
  if (info.torch_dtype.empty()) {
    result.dtype.name.clear();
    result.dtype.wire = info.dtype;
  }
  return result;
}

TensorMemory OpenModel::describe(std::size_t tensor) const {
  ModelTensor info = (*this)[tensor];
  TensorMemory memory;
  memory.bytes = info.bytes;
  memory.shape = std::move(info.shape);
  memory.dtype = std::move(info.dtype);
  memory.broadcast = info.meta;
  if (info.meta) {
    if (memory.dtype.item_bytes > zeros.size()) {
      throw Error(ErrorCode::kUsage,
                  "a meta tensor of a type of " + std::to_string(memory.dtype.item_bytes) + " bytes");
    }
    memory.data = zeros.data();
  }
  // Of types smaller than a byte: the bytes.
  if (safetensors_ && memory.dtype.foreign()) memory.shape = {memory.bytes};
  return memory;
}

std::shared_ptr<const FileMapping> OpenModel::mapping(std::size_t shard) const {
  const std::lock_guard lock(mappings_mutex_);
  std::shared_ptr<const FileMapping>& mapping = mappings_[shard];
  if (!mapping) {
    if (safetensors_) {
      const SafetensorsShard& info = safetensors_->shards()[shard];
      try {
        mapping = std::make_shared<FileMapping>(shard_name(shard), info.version);
      } catch (const Error& error) {
        throw Error(error.code(), info.file_name + ": " + error.message(), error.offset());
      }
    } else {
      mapping = std::make_shared<FileMapping>(data_file_name_, tensors_->data_file_version());
    }
  }
  return mapping;
}

TensorMemory OpenModel::map(std::size_t tensor) const {
  TensorMemory memory = describe(tensor);
  if (memory.broadcast) return memory;
  std::size_t shard = 0;
  std::uint64_t offset = 0;
  if (safetensors_) {
    const SafetensorsTensor info = (*safetensors_)[tensor];
    shard = info.shard;
    offset = safetensors_->shards()[shard].data_begin + info.begin;
  } else {
    offset = tensors_->tensors()[tensor].data_offset;
  }
  std::shared_ptr<const FileMapping> file = mapping(shard);
  const std::span<std::byte> bytes = file->bytes();
  if (offset > bytes.size() || memory.bytes > bytes.size() - offset) {
    throw Error(ErrorCode::kFileChanged, "the file became shorter since it was opened", offset);
  }
  memory.data = bytes.data() + offset;
  memory.owner = std::move(file);
  return with_aligned_data(std::move(memory));
}

std::vector<TensorMemory> OpenModel::load(Verification verify, HostMemory::Pages pages) const {
  if (is_mapped_) {
    // What an unverified load compares: each header with the index.
    if (tensors_) {
      require_unverified(verify);
      tensors_->check_headers();
    }
    std::vector<TensorMemory> result;
    result.reserve(size());
    for (std::size_t i = 0; i < size(); ++i) {
      meter_->check();
      result.push_back(map(i));
    }
    return result;
  }
  if (safetensors_) return load_safetensors(pages);
  const auto loaded = std::make_shared<LoadedTensors>(tensors_->load(verify, pages));
  std::vector<TensorMemory> result;
  result.reserve(size());
  for (std::size_t i = 0; i < size(); ++i) {
    TensorMemory memory = describe(i);
    if (!memory.broadcast) {
      memory.data = (*loaded)[i].data();
      memory.owner = loaded;
    }
    result.push_back(std::move(memory));
  }
  return result;
}

std::string OpenModel::shard_name(std::size_t shard) const {
  if (!safetensors_->sharded()) return file_name_;
  return file_name_.substr(0, file_name_.rfind('/') + 1) + safetensors_->shards()[shard].file_name;
}

// Reads in pieces on several threads, so that a read ends soon after it is cancelled.
void OpenModel::read_pieces(std::size_t shard, std::uint64_t offset, std::span<std::byte> out) const {
  std::atomic<std::uint64_t> next = 0;
  const std::size_t pieces = (out.size() + kPieceBytes - 1) / kPieceBytes;
  run_on_threads(static_cast<unsigned>(std::min<std::size_t>(threads_, pieces)), [&] {
    const std::uint64_t at = next.fetch_add(kPieceBytes);
    if (at >= out.size()) return false;
    meter_->check();
    const auto piece = out.subspan(static_cast<std::size_t>(at));
    const std::size_t length = std::min(piece.size(), kPieceBytes);
    // A fault at the end of a huge page makes the kernel clear it forward, as the read then fills it: 1.3 times as fast
    // on Zen 4 as a fault at its start, after which it is cleared backward.
    piece[length - 1] = {};
    safetensors_->read_shard(shard, offset + at, piece.first(length));
    meter_->add(length);
    return true;
  });
}

std::vector<TensorMemory> OpenModel::load_safetensors(HostMemory::Pages pages) const {
  std::vector<TensorMemory> result;
  result.reserve(size());
  std::size_t tensor = 0;
  for (std::size_t shard = 0; shard < safetensors_->shards().size(); ++shard) {
    const SafetensorsShard& info = safetensors_->shards()[shard];
    // The data has neither holes nor overlaps and ends where the file does, so the file is read as it is.
    const Allocation all = allocate(info.file_bytes - info.data_begin, pages);
    read_pieces(shard, info.data_begin, all.bytes);
    for (; tensor < size() && (*safetensors_)[tensor].shard == shard; ++tensor) {
      TensorMemory memory = describe(tensor);
      memory.data = all.bytes.data() + (*safetensors_)[tensor].begin;
      memory.owner = all.owner;
      result.push_back(with_aligned_data(std::move(memory)));
    }
  }
  return result;
}

TensorMemory OpenModel::read(std::size_t tensor, Verification verify) const {
  if (is_mapped_) {
    if (tensors_) {
      require_unverified(verify);
      static_cast<void>(tensors_->open(tensor));  // compares the header with the index
    }
    return map(tensor);
  }
  TensorMemory memory = describe(tensor);
  if (memory.broadcast) return memory;
  const Allocation all = allocate(memory.bytes, HostMemory::Pages::kHuge);
  if (tensors_) {
    tensors_->read(tensor, all.bytes, verify);
  } else if (!all.bytes.empty()) {
    const SafetensorsTensor info = (*safetensors_)[tensor];
    read_pieces(info.shard, safetensors_->shards()[info.shard].data_begin + info.begin, all.bytes);
  }
  memory.data = all.bytes.data();
  memory.owner = all.owner;
  return memory;
}

TensorMemory OpenModel::read_slice(std::size_t tensor, std::span<const std::uint64_t> begin,
                                   std::span<const std::uint64_t> end) const {
  TensorMemory memory = describe(tensor);
  if (safetensors_ && memory.dtype.foreign()) {
    throw Error(ErrorCode::kUsage, "elements smaller than a byte have no addresses: read the whole tensor");
  }
  const std::vector<std::uint64_t> shape = memory.shape;
  if (begin.size() != shape.size() || end.size() != shape.size()) {
    throw Error(ErrorCode::kUsage, "a slice needs a range per dimension");
  }
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (begin[i] > end[i] || end[i] > shape[i]) throw Error(ErrorCode::kUsage, "a slice lies outside its tensor");
    memory.shape[i] = end[i] - begin[i];
  }
  if (memory.broadcast) return memory;
  Runs runs(shape, begin, end, memory.dtype.item_bytes);
  memory.bytes = runs.bytes();
  const Allocation all = allocate(memory.bytes, HostMemory::Pages::kHuge);
  memory.data = all.bytes.data();
  memory.owner = all.owner;
  if (runs.is_done()) return memory;
  const std::unique_ptr<TensorStream> stream = source().open(tensor);
  std::vector<std::byte> block;
  std::span<std::byte> out = all.bytes;
  const auto length = static_cast<std::size_t>(runs.length());
  while (!runs.is_done()) {
    meter_->check();
    const std::uint64_t first = runs.offset();
    if (length >= kBlockBytes / 2) {
      for (std::size_t at = 0; at < length; at += kBlockBytes) {
        meter_->check();
        const std::size_t part = std::min(length - at, kBlockBytes);
        stream->read(first + at, out.subspan(at, part));
        meter_->add(part);
      }
      out = out.subspan(length);
      runs.advance();
      continue;
    }
    // Runs that are close together are read with what lies between them.
    std::vector<std::uint64_t> offsets;
    do {
      offsets.push_back(runs.offset() - first);
      runs.advance();
    } while (!runs.is_done() && runs.offset() - first + length <= kBlockBytes &&
             runs.offset() - first - offsets.back() - length <= kGapBytesMax);
    const auto span_bytes = static_cast<std::size_t>(offsets.back()) + length;
    if (offsets.size() == 1) {
      stream->read(first, out.first(length));
    } else {
      block.resize(span_bytes);
      stream->read(first, std::span(block));
      for (std::size_t i = 0; i < offsets.size(); ++i) {
        std::memcpy(out.data() + i * length, block.data() + offsets[i], length);
      }
    }
    out = out.subspan(offsets.size() * length);
    meter_->add(span_bytes);
  }
  return memory;
}

void OpenModel::verify() const {
  if (tensors_) {
    tensors_->verify();
  } else {
    safetensors_->verify();
  }
}

}  // namespace tzmark::py
