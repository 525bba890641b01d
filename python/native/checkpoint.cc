// tzmark._tzmark.Checkpointer, and loading checkpoints. The class tzmark.Checkpointer, in Python, is what users see.
#include "checkpoint.h"

#include <unistd.h>

#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arguments.h"
#include "blocking.h"
#include "errors.h"
#include "open_model.h"
#include "tzmark/checkpoint.h"
#include "tzmark/error.h"

namespace tzmark::py {
namespace {

constexpr std::chrono::milliseconds kWake(40);

struct State {
  explicit State(CheckpointOptions options) : checkpointer(std::move(options)) {}

  AsyncCheckpointer checkpointer;
  std::future<WriteReport> waiting;  // a call of wait that a signal may have left behind
  bool may_write = false;            // a save was started since the last wait
  std::exception_ptr pending;        // of an earlier write, not raised yet
  std::string save_id;               // of the last save that the other ranks wait for, and that the codec knows
  const pid_t process = ::getpid();
};
struct Object {
  PyObject_HEAD State* state;
};

State& state_of(PyObject* self) {
  State& state = *reinterpret_cast<Object*>(self)->state;
  if (state.process != ::getpid()) {
    throw Error(ErrorCode::kUsage, "this checkpointer belongs to the parent process: a fork makes its own");
  }
  return state;
}

// Waits for the write in flight without the interpreter's lock, which a barrier may need. A signal ends the wait, and
// the next call continues it. Returns the report; throws the error of the write, once.
WriteReport finish(State& state) {
  if (!state.waiting.valid()) {
    state.waiting = std::async(std::launch::async, [&state] { return state.checkpointer.wait(); });
  }
  while (true) {
    {
      const Unlocked unlocked;
      if (state.waiting.wait_for(kWake) == std::future_status::ready) break;
    }
    check(PyErr_CheckSignals());
  }
  state.may_write = false;
  return state.waiting.get();
}

// The same, and keeps the error for later.
void finish_before_next(State& state) {
  if (!state.may_write) return;
  try {
    finish(state);
  } catch (const PythonError&) {
    throw;
  } catch (...) {
    state.pending = std::current_exception();
  }
}

struct Tensors {
  std::vector<CheckpointTensor> views;
  std::uint64_t bytes = 0;
};

// From ((name, kind, dtype, shape, address, bytes), whether it is on a GPU) each; the kind is not used.
Tensors tensors_of(PyObject* list) {
  Tensors tensors;
  for (Py_ssize_t i = 0; i < PyList_Size(list); ++i) {
    PyObject *name = nullptr, *shape = nullptr;
    const char *kind = nullptr, *dtype = nullptr;
    unsigned long long address = 0, bytes = 0;
    int on_gpu = 0;
    if (PyArg_ParseTuple(PyList_GetItem(list, i), "(UssO!KK)p", &name, &kind, &dtype, &PyTuple_Type, &shape, &address,
                         &bytes, &on_gpu) == 0) {
      throw PythonError{};
    }
    CheckpointTensor tensor;
    tensor.name = utf8_of(name);
    tensor.dtype = dtype;
    for (Py_ssize_t d = 0; d < PyTuple_Size(shape); ++d) tensor.shape.push_back(number_of(PyTuple_GetItem(shape, d)));
    tensor.data = {reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(address)),
                   static_cast<std::size_t>(bytes), on_gpu != 0 ? MemoryKind::kDevice : MemoryKind::kHost};
    tensors.bytes += bytes;
    tensors.views.push_back(std::move(tensor));
  }
  return tensors;
}

// A Python object that threads without the interpreter's lock hold and release.
class SharedObject {
 public:
  explicit SharedObject(PyObject* object) : object_(object) { Py_INCREF(object_); }
  ~SharedObject() {
    const Locked locked;
    Py_DECREF(object_);
  }
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;
  PyObject* get() const { return object_; }

 private:
  PyObject* object_;
};

std::function<bool(bool)> agreement(PyObject* barrier) {
  return [shared = std::make_shared<SharedObject>(barrier)](bool mine_ok) {
    const Locked locked;
    const Ref own_ok = truth(mine_ok);
    const Ref result(PyObject_CallFunctionObjArgs(shared->get(), own_ok.get(), nullptr));
    if (!result) throw Error(ErrorCode::kCheckpointPeer, "the barrier raised " + text_of(take_exception()));
    if (!PyBool_Check(result.get())) {
      throw Error(ErrorCode::kCheckpointPeer, "the barrier must return a bool: whether every rank passed True");
    }
    return result.get() == Py_True;
  };
}

Ref file_name_object(const std::string& name) {
  return own(PyUnicode_DecodeFSDefaultAndSize(name.data(), static_cast<Py_ssize_t>(name.size())));
}

Ref state_object(const TrainingState& training) {
  Ref state = own(PyDict_New());
  set(state, "step", number(training.step));
  set(state, "epoch", number(training.epoch));
  set(state, "learning_rate", own(PyFloat_FromDouble(training.learning_rate)));
  Ref metadata = own(PyDict_New());
  for (const auto& [key, value] : training.metadata) {
    check(PyDict_SetItem(metadata.get(), text(key).get(), text(value).get()));
  }
  set(state, "metadata", metadata);
  return state;
}

Sharding::Strategy strategy_from(const std::string& name) {
  if (name == "replicated") return Sharding::Strategy::kReplicated;
  if (name == "zero") return Sharding::Strategy::kZeroPartitioned;
  if (name == "tensor-parallel") return Sharding::Strategy::kTensorParallel;
  throw Error(ErrorCode::kUsage, "the strategy is \"replicated\", \"zero\" or \"tensor-parallel\"");
}

// What one rank of several adds to a save.
struct Rank {
  std::uint32_t rank = 0, world_size = 0;
  Sharding sharding;
  SaveGroup group;
};

// From a list of bytes.
std::vector<std::string> names_of(PyObject* list) {
  std::vector<std::string> names;
  for (Py_ssize_t i = 0; i < PyList_Size(list); ++i) {
    const char* name = PyBytes_AsString(PyList_GetItem(list, i));
    if (name == nullptr) throw PythonError{};
    names.emplace_back(name);
  }
  return names;
}

// From a callable that takes (directory, save_id, sequence, committed_unix_ns, state) and returns a bool.
std::function<bool(const CheckpointInfo&, const TrainingState&)> keeper(PyObject* callable) {
  if (callable == Py_None) return {};
  return [shared = std::make_shared<SharedObject>(callable)](const CheckpointInfo& info, const TrainingState& state) {
    const Locked locked;
    const Ref name = file_name_object(info.directory), save_id = text(info.save_id);
    const Ref sequence = number(info.origin.sequence), committed = number(info.committed_unix_ns);
    const Ref content = state_object(state);
    const Ref result(PyObject_CallFunctionObjArgs(shared->get(), name.get(), save_id.get(), sequence.get(),
                                                  committed.get(), content.get(), nullptr));
    if (!result) throw Error(ErrorCode::kUsage, "keep raised " + text_of(take_exception()));
    if (!PyBool_Check(result.get())) throw Error(ErrorCode::kUsage, "keep must return a bool");
    return result.get() == Py_True;
  };
}

// From None, or (rank, world_size, strategy, split_dims, save_id, barrier).
std::optional<Rank> rank_of(PyObject* tuple) {
  if (tuple == Py_None) return std::nullopt;
  unsigned rank = 0, world_size = 0;
  const char *strategy = nullptr, *save_id = nullptr;
  PyObject *split_dims = nullptr, *barrier = nullptr;
  if (PyArg_ParseTuple(tuple, "IIsO!sO", &rank, &world_size, &strategy, &PyDict_Type, &split_dims, &save_id,
                       &barrier) == 0) {
    throw PythonError{};
  }
  Rank result;
  result.rank = rank;
  result.world_size = world_size;
  result.sharding.strategy = strategy_from(strategy);
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t at = 0;
  while (PyDict_Next(split_dims, &at, &key, &value) != 0) {
    result.sharding.split_dims.insert_or_assign(utf8_of(key), number_of(value));
  }
  result.group = {save_id, agreement(barrier)};
  return result;
}

PyObject* save(PyObject* self, PyObject* arguments) {
  const char* directory = nullptr;
  PyObject *model = nullptr, *optimizer = nullptr, *metadata = nullptr, *group = nullptr;
  std::uint64_t step = 0, epoch = 0;
  double learning_rate = 0;
  if (PyArg_ParseTuple(arguments, "yO!O!O&O&dO!O:save", &directory, &PyList_Type, &model, &PyList_Type, &optimizer,
                       convert_u64, &step, convert_u64, &epoch, &learning_rate, &PyDict_Type, &metadata, &group) == 0) {
    return nullptr;
  }
  return guarded(directory, [&] {
    State& state = state_of(self);
    const Tensors model_tensors = tensors_of(model), optimizer_tensors = tensors_of(optimizer);
    TrainingState training;
    training.step = step;
    training.epoch = epoch;
    training.learning_rate = learning_rate;
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t at = 0;
    while (PyDict_Next(metadata, &at, &key, &value) != 0) {
      training.metadata.insert_or_assign(utf8_of(key), utf8_of(value));
    }
    const std::optional<Rank> rank = rank_of(group);
    const auto begin = std::chrono::steady_clock::now();
    finish_before_next(state);
    const auto waited = std::chrono::steady_clock::now() - begin;
    SaveTimes times;
    Meter meter;
    const std::string name = directory;
    state.may_write = true;
    if (rank) state.save_id = rank->group.save_id;
    run_blocking({.meter = meter, .total_bytes = model_tensors.bytes + optimizer_tensors.bytes}, [&] {
      times = rank ? state.checkpointer.save_distributed(name, rank->rank, rank->world_size, model_tensors.views,
                                                         optimizer_tensors.views, training, rank->sharding, rank->group)
                   : state.checkpointer.save(name, model_tensors.views, optimizer_tensors.views, training);
    });
    if (state.pending) std::rethrow_exception(std::exchange(state.pending, nullptr));
    Ref result = own(PyDict_New());
    const auto wait_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(waited).count();
    set(result, "wait_ns", number(static_cast<std::uint64_t>(wait_ns)));
    set(result, "copy_ns", number(times.copy_ns));
    set(result, "submit_ns", number(times.submit_ns));
    return result;
  });
}

PyObject* wait(PyObject* self, PyObject*) {
  return guarded({}, [&] {
    State& state = state_of(self);
    const WriteReport report = finish(state);
    if (state.pending) std::rethrow_exception(std::exchange(state.pending, nullptr));
    Ref result = own(PyDict_New());
    set(result, "snapshot_bytes", number(report.snapshot_bytes));
    set(result, "file_bytes", number(report.file_bytes));
    set(result, "drain_ns", number(report.drain_ns));
    set(result, "commit_ns", number(report.commit_ns));
    set(result, "retention_ns", number(report.retention_ns));
    set(result, "names_durable", truth(report.names_durable));
    set(result, "commit", text(std::string(commit_method_name(report.commit))));
    Ref warnings = own(PyList_New(0));
    for (const std::string& warning : report.warnings) append(warnings, text(warning));
    set(result, "warnings", warnings);
    return result;
  });
}

PyObject* decline(PyObject* self, PyObject* arguments) {
  PyObject* group = nullptr;
  if (PyArg_ParseTuple(arguments, "O:decline", &group) == 0) return nullptr;
  return guarded({}, [&] {
    State& state = state_of(self);
    const std::optional<Rank> rank = rank_of(group);
    if (!rank || rank->group.save_id == state.save_id) return none();
    finish_before_next(state);
    state.save_id = rank->group.save_id;
    state.may_write = true;
    {
      const Unlocked unlocked;
      state.checkpointer.decline(rank->group);
    }
    return none();
  });
}

PyObject* continue_from(PyObject* self, PyObject* arguments) {
  const char* save_id = nullptr;
  if (PyArg_ParseTuple(arguments, "s:continue_from", &save_id) == 0) return nullptr;
  return guarded({}, [&] {
    State& state = state_of(self);
    finish_before_next(state);
    state.checkpointer.continue_from(save_id);
    return none();
  });
}

PyObject* claim(PyObject* self, PyObject* arguments) {
  const char* parent = nullptr;
  if (PyArg_ParseTuple(arguments, "y:claim", &parent) == 0) return nullptr;
  return guarded(parent, [&] {
    State& state = state_of(self);
    finish_before_next(state);
    std::string sentence;
    {
      const Unlocked unlocked;
      sentence = state.checkpointer.claim(parent);
    }
    return text(sentence);
  });
}

PyObject* release(PyObject* self, PyObject*) {
  return guarded({}, [&] {
    State& state = state_of(self);
    finish_before_next(state);
    state.checkpointer.release();
    return none();
  });
}

PyObject* reserve(PyObject* self, PyObject* arguments) {
  std::uint64_t bytes = 0;
  if (PyArg_ParseTuple(arguments, "O&:reserve", convert_u64, &bytes) == 0) return nullptr;
  return guarded({}, [&] {
    State& state = state_of(self);
    finish_before_next(state);
    Meter meter;
    run_blocking({.meter = meter, .total_bytes = bytes}, [&] { state.checkpointer.reserve(bytes); });
    return none();
  });
}

PyObject* create(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  std::uint64_t keep_latest = 0, keep_every = 0, memory_limit = 0;
  const char *format = nullptr, *io = nullptr, *commit = nullptr;
  PyObject *layout = nullptr, *protect = nullptr, *keep = nullptr;
  int sha256 = 1, require_durable = 0, exclusive = 0;
  unsigned threads = 0;
  static char* names[] = {const_cast<char*>("keep_latest"),     const_cast<char*>("keep_every"),
                          const_cast<char*>("format"),          const_cast<char*>("layout"),
                          const_cast<char*>("sha256"),          const_cast<char*>("io"),
                          const_cast<char*>("threads"),         const_cast<char*>("memory_limit_bytes"),
                          const_cast<char*>("require_durable"), const_cast<char*>("commit"),
                          const_cast<char*>("protect"),         const_cast<char*>("keep"),
                          const_cast<char*>("exclusive"),       nullptr};
  if (PyArg_ParseTupleAndKeywords(arguments, keywords, "O&O&sOpsO&O&psO!Op:Checkpointer", names, convert_u64,
                                  &keep_latest, convert_u64, &keep_every, &format, &layout, &sha256, &io,
                                  convert_unsigned, &threads, convert_u64, &memory_limit, &require_durable, &commit,
                                  &PyList_Type, &protect, &keep, &exclusive) == 0) {
    return nullptr;
  }
  return guarded({}, [&] {
    CheckpointOptions options;
    const std::string format_name = format;
    if (format_name == "tensors") {
      options.format = CheckpointOptions::Format::kTensors;
    } else if (format_name != "safetensors") {
      throw Error(ErrorCode::kUsage, "the format is \"safetensors\" or \"tensors\"");
    }
    if (layout != Py_None) {
      options.layout = layout_from_name(utf8_of(layout));
      if (!options.layout) throw Error(ErrorCode::kUsage, "there is no layout '" + utf8_of(layout) + "'");
    }
    options.sha256 = sha256 != 0;
    options.io_path = io;
    const auto method = commit_method_from_name(commit);
    if (!method) throw Error(ErrorCode::kUsage, "commit is \"auto\", \"rename\" or \"marker\"");
    options.commit = *method;
    options.threads = threads;
    options.memory_limit_bytes = memory_limit;
    if (require_durable != 0) options.durability = Durability::kRequired;
    options.retention.keep_latest = static_cast<std::size_t>(keep_latest);
    options.retention.keep_every = keep_every;
    options.retention.protect = names_of(protect);
    options.retention.keep = keeper(keep);
    options.exclusive = exclusive != 0;
    auto state = std::make_unique<State>(std::move(options));
    Ref self = own(reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc))(type, 0));
    reinterpret_cast<Object*>(self.get())->state = state.release();
    return self;
  });
}

// Waits for the write in flight, whose error is reported as an unraisable exception.
void deallocate(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  State* const state = reinterpret_cast<Object*>(self)->state;
  // After a fork the thread that writes does not exist, so waiting for it would never end: the memory stays.
  if (state != nullptr && state->process == ::getpid()) {
    std::exception_ptr error = state->pending;
    {
      const Unlocked unlocked;
      try {
        if (state->waiting.valid()) {
          state->waiting.get();
        } else {
          state->checkpointer.wait();
        }
      } catch (...) {
        error = std::current_exception();
      }
      delete state;
    }
    if (error) {
      PyObject *old_type = nullptr, *old_value = nullptr, *old_traceback = nullptr;
      PyErr_Fetch(&old_type, &old_value, &old_traceback);
      set_error(error, {});
      PyErr_WriteUnraisable(reinterpret_cast<PyObject*>(type));
      PyErr_Restore(old_type, old_value, old_traceback);
    }
  }
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

PyMethodDef methods[] = {
    {"save", save, METH_VARARGS,
     "Copy the tensors and write them in the background: save(directory, model, optimizer, step, epoch, learning_rate, "
     "metadata, rank)."},
    {"decline", decline, METH_VARARGS, "Fail a save on all ranks, unless save has begun it: decline(rank)."},
    {"wait", wait, METH_NOARGS, "Wait for the write in flight, and return what it did."},
    {"continue_from", continue_from, METH_VARARGS, "Make the next save the successor of a checkpoint, by its save id."},
    {"claim", claim, METH_VARARGS, "Show that this process saves to a directory; return who else does, or ''."},
    {"release", release, METH_NOARGS, "End all claims."},
    {"reserve", reserve, METH_VARARGS, "Allocate memory for snapshots of that many bytes."},
    {nullptr, nullptr, 0, nullptr}};
PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(create)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
                       {Py_tp_methods, methods},
                       {Py_tp_doc, const_cast<char*>("Writes checkpoints; see tzmark.Checkpointer.")},
                       {0, nullptr}};
PyType_Spec spec = {"tzmark._tzmark.Checkpointer", sizeof(Object), 0, Py_TPFLAGS_DEFAULT, slots};

Ref buffers(std::vector<CheckpointTensor>& tensors, const std::shared_ptr<LoadedCheckpoint>& owner) {
  Ref list = own(PyList_New(0));
  for (CheckpointTensor& tensor : tensors) {
    TensorMemory memory;
    memory.owner = owner;
    // The memory belongs to the loaded checkpoint, and only Python uses it.
    memory.data = const_cast<std::byte*>(tensor.data.data);
    memory.bytes = tensor.data.size;
    memory.shape = tensor.shape;
    memory.dtype = dtype_from_name(tensor.dtype);
    const Ref name = text(tensor.name);
    const Ref buffer = make_buffer(with_aligned_data(std::move(memory)));
    append(list, own(PyTuple_Pack(2, name.get(), buffer.get())));
  }
  return list;
}

}  // namespace

void add_checkpointer_type(PyObject* module) {
  Ref type = own(PyType_FromSpec(&spec));
  check(PyModule_AddObjectRef(module, "Checkpointer", type.get()));
}

PyObject* load_checkpoint(PyObject*, PyObject* arguments) {
  const char *directory = nullptr, *io = nullptr;
  unsigned rank = 0, world_size = 0, threads = 0;
  int committed_only = 1;
  if (PyArg_ParseTuple(arguments, "yO&O&psO&:load_checkpoint", &directory, convert_unsigned, &rank, convert_unsigned,
                       &world_size, &committed_only, &io, convert_unsigned, &threads) == 0) {
    return nullptr;
  }
  return guarded(directory, [&] {
    CheckpointReadOptions options;
    if (committed_only == 0) options.commit = CheckpointReadOptions::Commit::kNotRequired;
    options.io_path = io;
    options.threads = threads;
    std::shared_ptr<LoadedCheckpoint> loaded;
    Meter meter;
    const std::string name = directory;
    run_blocking({.meter = meter, .total_bytes = 0, .may_wait = true}, [&] {
      loaded = std::make_shared<LoadedCheckpoint>(
          world_size == 0 ? tzmark::load_checkpoint(name, options)
                          : tzmark::load_distributed_checkpoint(name, rank, world_size, options));
    });
    Ref state = state_object(loaded->state);
    set(state, "save_id", text(loaded->save_id));
    const Ref model = buffers(loaded->model, loaded), optimizer = buffers(loaded->optimizer, loaded);
    return own(PyTuple_Pack(3, state.get(), model.get(), optimizer.get()));
  });
}

PyObject* checkpoint_candidates(PyObject*, PyObject* arguments) {
  const char* parent = nullptr;
  if (PyArg_ParseTuple(arguments, "y:checkpoint_candidates", &parent) == 0) return nullptr;
  return guarded(parent, [&] {
    CheckpointCandidates candidates;
    Meter meter;
    run_blocking({.meter = meter, .total_bytes = 0}, [&] { candidates = list_checkpoint_candidates(parent); });
    const Ref checkpoints = own(PyList_New(0)), passed_over = own(PyList_New(0));
    for (const CheckpointInfo& info : candidates.checkpoints) {
      const Ref directory = file_name_object(info.directory), save_id = text(info.save_id);
      append(checkpoints, own(PyTuple_Pack(2, directory.get(), save_id.get())));
    }
    for (const std::string& sentence : candidates.passed_over) append(passed_over, text(sentence));
    const Ref damaged = text(candidates.damage);
    const Ref is_unread = own(PyBool_FromLong(candidates.damage_code == ErrorCode::kReadFailed ? 1 : 0));
    return own(PyTuple_Pack(4, checkpoints.get(), passed_over.get(), damaged.get(), is_unread.get()));
  });
}

PyObject* other_writer(PyObject*, PyObject* arguments) {
  const char* parent = nullptr;
  if (PyArg_ParseTuple(arguments, "y:other_writer", &parent) == 0) return nullptr;
  return guarded(parent, [&] {
    std::string sentence;
    {
      const Unlocked unlocked;
      sentence = tzmark::other_writer(parent);
    }
    return text(sentence);
  });
}

PyObject* clean_checkpoints(PyObject*, PyObject* arguments) {
  const char* parent = nullptr;
  if (PyArg_ParseTuple(arguments, "y:clean_checkpoints", &parent) == 0) return nullptr;
  return guarded(parent, [&] {
    CleanedCheckpoints cleaned;
    Meter meter;
    run_blocking({.meter = meter, .total_bytes = 0, .may_wait = true},
                 [&] { cleaned = clean_stale_checkpoints(parent); });
    const Ref removed = own(PyList_New(0)), kept = own(PyList_New(0));
    for (const std::string& name : cleaned.removed) append(removed, file_name_object(name));
    for (const std::string& sentence : cleaned.kept) append(kept, text(sentence));
    return own(PyTuple_Pack(2, removed.get(), kept.get()));
  });
}

}  // namespace tzmark::py
