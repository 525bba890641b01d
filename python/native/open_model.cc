// One open model file of either format, for the reader of the module. Knows nothing of Python.
#include "open_model.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <variant>

#include "allocation.h"
#include "memory_file.h"
#include "tzmark/device.h"
#include "tzmark/error.h"
#include "tzmark/threads.h"
#include "tzmark/writer.h"

namespace tzmark::py {
namespace {

// The elements of a tensor without stored values; none is larger.
alignas(kAlignBytes) constinit std::array<std::byte, 256> zeros{};

bool is_aligned(const void* data, std::uint64_t item_bytes) {
  // Of types with two parts, such as complex numbers, the parts need to be aligned; a check of the whole is stricter.
  const std::uint64_t unit = item_bytes & (~item_bytes + 1);
  return reinterpret_cast<std::uintptr_t>(data) % unit == 0;
}

std::uint64_t whole_units(std::uint64_t bytes) { return (bytes + kAlignBytes - 1) / kAlignBytes * kAlignBytes; }

void require_unverified(Verification verify) {
  if (verify == Verification::kNone) return;
  throw Error(ErrorCode::kUsage,
              "mapped=True needs verify=False: the content of a mapping can change after its hashes were compared");
}

// The memory of a tensor, except for its data; that of a meta tensor has zeros.
TensorMemory without_data(ModelTensor info) {
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
  return memory;
}

}  // namespace

ModelTensor model_tensor(const TensorInfo& info) {
  ModelTensor result;
  result.path = info.path();
  result.dtype = info.dtype;
  result.stored_dtype = info.dtype.wire;
  result.shape.assign(info.shape.begin(), info.shape.end());
  result.bytes = info.data_length;
  result.meta = info.meta();
  result.kind = kind_name(info.kind);
  return result;
}

std::vector<TensorMemory> memory_of(const Reader& reader, LoadedTensors loaded) {
  const auto owner = std::make_shared<const LoadedTensors>(std::move(loaded));
  const TensorTable& tensors = reader.tensors();
  std::vector<TensorMemory> result;
  result.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    TensorMemory memory = without_data(model_tensor(tensors[i]));
    if (!memory.broadcast) {
      memory.data = (*owner)[i].data();
      memory.owner = owner;
    }
    result.push_back(std::move(memory));
  }
  return result;
}

TensorMemory copied(TensorMemory memory) {
  if (memory.device) {
    const auto owner = std::make_shared<const DeviceMemory>(static_cast<std::size_t>(memory.bytes), *memory.device);
    std::vector<std::byte> bytes(static_cast<std::size_t>(memory.bytes));
    copy_to_host({memory.data, bytes.size(), MemoryKind::kDevice}, bytes);
    copy_from_host(bytes, owner->buffer());
    memory.data = owner->buffer().data;
    memory.owner = owner;
    return memory;
  }
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
  if (is_mapped_ && is_url(file_name_)) {
    throw Error(ErrorCode::kUsage, "mapped=True needs a file of this machine, and a URL is read into memory");
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
  if (tensors_) return model_tensor(tensors_->tensors()[tensor]);
  const SafetensorsTensor info = (*safetensors_)[tensor];
  ModelTensor result;
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
  TensorMemory memory = without_data((*this)[tensor]);
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
  return memory_of(*tensors_, tensors_->load(verify, pages));
}

std::string OpenModel::shard_name(std::size_t shard) const {
  if (!safetensors_->sharded()) return file_name_;
  return file_name_.substr(0, file_name_.rfind('/') + 1) + safetensors_->shards()[shard].file_name;
}

std::vector<TensorMemory> OpenModel::load_safetensors(HostMemory::Pages pages) const {
  std::vector<TensorMemory> result;
  result.reserve(size());
  std::size_t tensor = 0;
  for (std::size_t shard = 0; shard < safetensors_->shards().size(); ++shard) {
    const SafetensorsShard& info = safetensors_->shards()[shard];
    // The data has neither holes nor overlaps and ends where the file does, so the file is read as it is.
    const Allocation all = allocate(info.file_bytes - info.data_begin, pages);
    safetensors_->read_shard(shard, info.data_begin, all.bytes);
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
    safetensors_->read_shard(info.shard, safetensors_->shards()[info.shard].data_begin + info.begin, all.bytes);
  }
  memory.data = all.bytes.data();
  memory.owner = all.owner;
  return memory;
}

std::vector<TensorMemory> OpenModel::load_into_device(Verification verify, int device) const {
  require_not_mapped();
  DeviceReadOptions options;
  options.verify = verify;
  options.device = device;
  std::vector<TensorMemory> result;
  result.reserve(size());
  const auto add = [&](std::size_t tensor, MutableBuffer data, const std::shared_ptr<const void>& owner) {
    TensorMemory memory = describe(tensor);
    if (!memory.broadcast) {
      memory.data = data.data;
      memory.owner = owner;
      memory.device = device;
      if (!is_aligned(memory.data, memory.dtype.item_bytes)) memory = copied(std::move(memory));
    }
    result.push_back(std::move(memory));
  };
  if (tensors_) {
    const auto loaded = std::make_shared<DeviceTensors>(tensors_->load_into_device(options));
    for (std::size_t i = 0; i < size(); ++i) add(i, (*loaded)[i], loaded);
    return result;
  }
  std::vector<std::shared_ptr<const DeviceMemory>> shards;
  for (DeviceMemory& memory : safetensors_->load_into_device(options)) {
    shards.push_back(std::make_shared<const DeviceMemory>(std::move(memory)));
  }
  for (std::size_t i = 0; i < size(); ++i) {
    const SafetensorsTensor info = (*safetensors_)[i];
    const auto& shard = shards[info.shard];
    const auto length = static_cast<std::size_t>(info.data_length());
    add(i, shard->buffer().sub(static_cast<std::size_t>(info.begin), length), shard);
  }
  return result;
}

TensorMemory OpenModel::read_into_device(std::size_t tensor, Verification verify, int device) const {
  require_not_mapped();
  TensorMemory memory = describe(tensor);
  if (memory.broadcast) return memory;
  DeviceReadOptions options;
  options.verify = verify;
  options.device = device;
  const auto owner = std::make_shared<const DeviceMemory>(static_cast<std::size_t>(memory.bytes), device);
  if (tensors_) {
    tensors_->read_into_device(tensor, owner->buffer(), options);
  } else {
    safetensors_->read_into_device(tensor, owner->buffer(), options);
  }
  memory.data = owner->buffer().data;
  memory.owner = owner;
  memory.device = device;
  return memory;
}

void OpenModel::read_into(std::span<const ReadTarget> targets, Verification verify) const {
  DeviceReadOptions options;
  options.verify = verify;
  std::vector<SlicedTensor> slices;
  std::vector<ReadTarget> on_host, on_device;
  for (const auto& [tensor, given] : targets) {
    meter_->check();
    // Nothing has no place.
    const MutableBuffer out = given.size != 0 ? given : MutableBuffer();
    const TensorMemory memory = describe(tensor);
    if (memory.broadcast || memory.bytes != out.size) {
      throw Error(ErrorCode::kUsage, std::to_string(out.size) + " bytes of memory for a tensor of " +
                                         std::to_string(memory.broadcast ? 0 : memory.bytes));
    }
    const bool is_on_device = out.kind == MemoryKind::kDevice;
    if (is_on_device) {
      on_device.push_back({tensor, out});
    } else if (tensors_) {
      on_host.push_back({tensor, out});
    } else {
      slices.push_back({tensor, Runs(memory.shape, whole(tensor), memory.dtype.item_bytes), out});
    }
  }
  if (!on_host.empty()) tensors_->read(on_host, verify);
  if (!on_device.empty() && tensors_) tensors_->read_into_device(on_device, options);
  if (!on_device.empty() && safetensors_) safetensors_->read_into_device(on_device, options);
  if (!slices.empty()) tzmark::py::read_slices(source(), std::move(slices), threads_, *meter_);
}

void OpenModel::require_not_mapped() const {
  if (!is_mapped_) return;
  throw Error(ErrorCode::kUsage, "mapped=True excludes a device: views of the file are in host memory");
}

Slice OpenModel::whole(std::size_t tensor) const {
  std::vector<std::uint64_t> shape = describe(tensor).shape;
  return {tensor, std::vector<std::uint64_t>(shape.size()), std::move(shape), true};
}

TensorMemory OpenModel::describe(const Slice& slice) const {
  TensorMemory memory = describe(slice.tensor);
  if (slice.is_whole) return memory;
  if (safetensors_ && memory.dtype.foreign()) {
    throw Error(ErrorCode::kUsage, "elements smaller than a byte have no addresses: read the whole tensor");
  }
  if (slice.begin.size() != memory.shape.size() || slice.end.size() != memory.shape.size()) {
    throw Error(ErrorCode::kUsage, "a slice needs a range per dimension");
  }
  std::uint64_t elements = 1;
  for (std::size_t i = 0; i < memory.shape.size(); ++i) {
    const std::uint64_t begin = slice.begin[i], end = slice.end[i];
    if (begin > end || end > memory.shape[i]) throw Error(ErrorCode::kUsage, "a slice lies outside its tensor");
    memory.shape[i] = end - begin;
    elements *= end - begin;
  }
  if (!memory.broadcast) memory.bytes = elements * memory.dtype.item_bytes;
  return memory;
}

std::uint64_t OpenModel::bytes_of(std::span<const Slice> slices) const {
  std::uint64_t bytes = 0;
  for (const Slice& slice : slices) bytes += describe(slice).bytes;
  return bytes;
}

std::vector<TensorMemory> OpenModel::read_slices(std::span<const Slice> slices, HostMemory::Pages pages,
                                                 std::optional<int> device) const {
  if (device) require_not_mapped();
  std::vector<TensorMemory> result;
  std::vector<SlicedTensor> reads;
  std::uint64_t all_bytes = 0;
  for (const Slice& slice : slices) {
    result.push_back(describe(slice));
    // Compares the header with the index, as an unverified load does; of other tensors, reading does it.
    if (tensors_ && (result.back().broadcast || result.back().bytes == 0))
      static_cast<void>(source().open(slice.tensor));
    if (result.back().broadcast) continue;
    const TensorMemory tensor = describe(slice.tensor);
    reads.push_back({slice.tensor, Runs(tensor.shape, slice, tensor.dtype.item_bytes), {}});
    all_bytes += whole_units(result.back().bytes);
  }
  // One allocation, in which each tensor is aligned.
  MutableBuffer rest;
  std::shared_ptr<const void> owner;
  if (device) {
    const auto memory = std::make_shared<const DeviceMemory>(static_cast<std::size_t>(all_bytes), *device);
    rest = memory->buffer();
    owner = memory;
  } else {
    const Allocation memory = allocate(all_bytes, pages);
    rest = memory.bytes;
    owner = memory.owner;
  }
  auto read = reads.begin();
  for (TensorMemory& memory : result) {
    if (memory.broadcast) continue;
    read->out = rest.sub(0, static_cast<std::size_t>(memory.bytes));
    memory.data = rest.data;
    memory.owner = owner;
    memory.device = device;
    const auto taken = static_cast<std::size_t>(whole_units(memory.bytes));
    rest = rest.sub(taken, rest.size - taken);
    ++read;
  }
  tzmark::py::read_slices(source(), std::move(reads), threads_, *meter_);
  return result;
}

void OpenModel::verify() const {
  if (tensors_) {
    tensors_->verify();
  } else {
    safetensors_->verify();
  }
}

void OpenModel::check_loaded(std::span<const TensorMemory> loaded, Verification verify) const {
  if (!tensors_) return;
  std::vector<ConstBuffer> views;
  for (const TensorMemory& memory : loaded) {
    // Of a tensor without values, one element is in memory that is not the file's.
    const std::size_t bytes = memory.broadcast ? 0 : static_cast<std::size_t>(memory.bytes);
    views.emplace_back(memory.data, bytes, memory.device ? MemoryKind::kDevice : MemoryKind::kHost);
  }
  tensors_->check_loaded(views, verify);
}

}  // namespace tzmark::py
