// Writing and converting model files.
#include "writer.h"

#include <algorithm>
#include <optional>

#include "arguments.h"
#include "blocking.h"
#include "errors.h"
#include "memory_file.h"
#include "reader.h"
#include "tzmark/error.h"
#include "tzmark/safetensors.h"
#include "tzmark/writer.h"

namespace tzmark::py {
namespace {

Kind kind_from_name(const std::string& name) {
  for (const Kind kind : {Kind::kParameter, Kind::kBuffer, Kind::kStateDict}) {
    if (kind_name(kind) == name) return kind;
  }
  throw Error(ErrorCode::kUsage, "the kind is \"parameter\", \"buffer\" or \"state_dict\"");
}

struct Content {
  TensorTable table;
  std::vector<ConstBuffer> data;
  std::uint64_t bytes = 0;
};

// Adds (name, kind, dtype, shape, address, bytes).
void add_tensor(Content& content, PyObject* row) {
  PyObject *name = nullptr, *shape = nullptr;
  const char *kind = nullptr, *dtype_name = nullptr;
  unsigned long long address = 0, bytes = 0;
  if (PyArg_ParseTuple(row, "OssO!KK", &name, &kind, &dtype_name, &PyTuple_Type, &shape, &address, &bytes) == 0) {
    throw PythonError{};
  }
  std::vector<std::uint64_t> dimensions;
  for (Py_ssize_t i = 0; i < PyTuple_Size(shape); ++i) dimensions.push_back(number_of(PyTuple_GetItem(shape, i)));
  const Dtype dtype = dtype_from_name(dtype_name);
  const Path path = path_of(name);
  const auto nominal = nominal_bytes(dimensions, dtype.item_bytes);
  if (!nominal || *nominal != bytes) {
    throw Error(ErrorCode::kUsage, "'" + display_path(path) + "' has " + std::to_string(bytes) +
                                       " bytes, which differs from what its shape and dtype give");
  }
  content.table.add(path, kind_from_name(kind), dtype, dimensions);
  content.data.emplace_back(reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(address)),
                            static_cast<std::size_t>(bytes));
  content.bytes += bytes;
}

// A rule of the format that the arguments break is an error of the call: no file is at fault.
template <typename Action>
void about_arguments(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    if (error.error_class() != ErrorClass::kFile) throw;
    throw Error(ErrorCode::kUsage, std::string(error.rule()) + ": " + error.message());
  }
}

// An empty name means memory.
struct Output {
  std::string file_name;
  bool is_safetensors = false;
  GrowingMemoryFile memory;
};

SafetensorsWriteOptions safetensors_options(OutputOptions& options, const Progress& progress) {
  if (options.write.layout || options.write.encrypt) {
    throw Error(ErrorCode::kUsage, "a safetensors file has neither a layout nor a key");
  }
  SafetensorsWriteOptions write;
  write.metadata = std::move(options.metadata);
  write.index_metadata = std::move(options.index_metadata);
  write.shard_bytes_max = options.shard_bytes;
  write.verify_source = options.write.verify_source;
  write.threads = options.write.threads;
  write.io_path = options.write.io_path;
  write.existing = options.write.existing;
  write.durability = options.write.durability;
  write.progress = progress;
  return write;
}

std::string reason_unless(bool names_durable) { return names_durable ? "" : std::string(why_name_is_not_durable()); }

// Returns what a warning says after "complete, but"; an empty text if there is nothing to say.
std::string write_to(Output& output, const TensorTable& table, const TensorSource& source, OutputOptions& options,
                     const Progress& progress) {
  if (output.is_safetensors) {
    const SafetensorsWriteOptions write = safetensors_options(options, progress);
    if (output.file_name.empty()) {
      if (write.shard_bytes_max != 0) throw Error(ErrorCode::kUsage, "shards need a file name");
      write_safetensors(output.memory, table, source, write);
      return {};
    }
    const SafetensorsWriteResult result = write_safetensors(output.file_name, table, source, write);
    if (result.old_file_names.empty()) return reason_unless(result.names_durable);
    return why_files_are_kept(result.old_file_names);
  }
  require_no_lost_metadata(options.metadata, "write a safetensors file, or leave it out");
  if (options.shard_bytes != 0) throw Error(ErrorCode::kUsage, "shards are for safetensors only");
  options.write.progress = progress;
  if (output.file_name.empty()) {
    write_tensors(output.memory, table, source, options.write);
    return {};
  }
  return reason_unless(write_file(output.file_name, table, source, options.write).names_durable);
}

// Errors of the source name the file that it reads.
class NamedStream final : public TensorStream {
 public:
  NamedStream(const std::string& file_name, std::unique_ptr<TensorStream> stream)
      : file_name_(file_name), stream_(std::move(stream)) {}
  void read(std::uint64_t offset, MutableBuffer out) override {
    try {
      stream_->read(offset, out);
    } catch (const Error& error) {
      throw FileError{file_name_, error};
    }
  }
  const ExpectedHashes* expected() const override { return stream_->expected(); }

 private:
  const std::string& file_name_;
  std::unique_ptr<TensorStream> stream_;
};

class NamedSource final : public TensorSource {
 public:
  NamedSource(const std::string& file_name, const TensorSource& source) : file_name_(file_name), source_(source) {}
  std::unique_ptr<TensorStream> open(std::size_t tensor) const override {
    try {
      return std::make_unique<NamedStream>(file_name_, source_.open(tensor));
    } catch (const Error& error) {
      throw FileError{file_name_, error};
    }
  }
  std::vector<FileVersion> files() const override { return source_.files(); }

 private:
  const std::string& file_name_;
  const TensorSource& source_;
};

// Adds the metadata of the source to what is given. A .tensors file implies that of PyTorch.
void add_metadata(OutputOptions& options, const Output& output, const OpenModel& model, const std::string& file_name) {
  auto metadata = model.is_safetensors() ? model.safetensors().metadata() : torch_metadata();
  const auto of_index = model.is_safetensors() ? model.safetensors().index_metadata() : decltype(metadata)();
  metadata.insert(of_index.begin(), of_index.end());
  try {
    if (model.is_safetensors()) {
      require_one_metadata(model.safetensors(), output.is_safetensors ? options.metadata : decltype(metadata)(),
                           output.is_safetensors ? "give it with metadata, or leave all out with drop_metadata=True"
                                                 : "drop_metadata=True leaves it out");
    }
    if (!output.is_safetensors) require_no_lost_metadata(metadata, "drop_metadata=True leaves it out");
  } catch (const Error& error) {
    throw FileError{file_name, error};
  }
  if (!output.is_safetensors) return;
  if (options.shard_bytes != 0) {
    for (const auto& [key, value] : of_index) {
      const auto given = options.metadata.find(key);
      options.index_metadata.emplace(key, given != options.metadata.end() ? given->second : value);
    }
  }
  options.metadata.insert(metadata.begin(), metadata.end());
}

bool is_hash_error(const Error& error) {
  return error.code() == ErrorCode::kHashNone || error.code() == ErrorCode::kHashCrc32 ||
         error.code() == ErrorCode::kHashSha256;
}

}  // namespace

PyObject* write(PyObject*, PyObject* arguments) {
  PyObject *file = nullptr, *tensors = nullptr, *dict = nullptr, *progress = nullptr;
  int is_safetensors = 0;
  if (PyArg_ParseTuple(arguments, "OO!pO!O:write", &file, &PyList_Type, &tensors, &is_safetensors, &PyDict_Type, &dict,
                       &progress) == 0) {
    return nullptr;
  }
  std::string file_name;
  if (file != Py_None) {
    char* text = nullptr;
    if (PyBytes_AsStringAndSize(file, &text, nullptr) < 0) return nullptr;
    file_name = text;
  }
  return guarded(file_name, [&] {
    if (file != Py_None && file_name.empty()) throw Error(ErrorCode::kUsage, "the file name is empty");
    Output output;
    output.file_name = file_name;
    output.is_safetensors = is_safetensors != 0;
    OutputOptions options(dict);
    Content content;
    about_arguments([&] {
      for (Py_ssize_t i = 0; i < PyList_Size(tensors); ++i) add_tensor(content, PyList_GetItem(tensors, i));
    });
    Meter meter;
    const MemorySource source(std::move(content.data));
    const bool derives = options.write.encrypt && std::holds_alternative<Passphrase>(options.write.encrypt->key);
    std::string reason;
    run_blocking({.meter = meter, .total_bytes = content.bytes, .progress = progress, .may_wait = derives}, [&] {
      about_arguments([&] {
        reason = write_to(output, content.table, source, options, [&](std::uint64_t bytes) { meter.add(bytes); });
      });
    });
    if (file != Py_None) return reason.empty() ? none() : text(reason);
    const auto bytes = output.memory.content();
    return py::bytes({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  });
}

PyObject* convert(PyObject*, PyObject* arguments) {
  PyObject *reader = nullptr, *dict = nullptr, *progress = nullptr;
  const char* file_name = nullptr;
  int is_safetensors = 0, verify_source = 1, drop_metadata = 0;
  if (PyArg_ParseTuple(arguments, "OypppO!O:convert", &reader, &file_name, &is_safetensors, &verify_source,
                       &drop_metadata, &PyDict_Type, &dict, &progress) == 0) {
    return nullptr;
  }
  return guarded(file_name, [&] {
    if (*file_name == '\0') throw Error(ErrorCode::kUsage, "the file name is empty");
    const std::shared_ptr<OpenModel> model = model_of(reader);
    model->require_same_process();
    Output output;
    output.file_name = file_name;
    output.is_safetensors = is_safetensors != 0;
    OutputOptions options(dict);
    options.write.verify_source = verify_source != 0;
    if (drop_metadata == 0) add_metadata(options, output, *model, file_name_of(reader));
    const NamedSource source(file_name_of(reader), model->source());
    Meter& meter = model->meter();
    std::string reason;
    run_blocking({.meter = meter, .total_bytes = model->file_bytes(), .progress = progress, .may_wait = true}, [&] {
      try {
        const Progress tell = [&](std::uint64_t bytes) { meter.add(bytes); };
        reason = write_to(output, model->writable_table(), source, options, tell);
      } catch (const Error& error) {
        // The writer itself compares the hashes that the source stores.
        if (is_hash_error(error)) throw FileError{file_name_of(reader), error};
        throw;
      }
    });
    return reason.empty() ? none() : text(reason);
  });
}

}  // namespace tzmark::py
