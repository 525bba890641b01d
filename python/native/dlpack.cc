// DLPack capsules of tensors in memory of the host or of a GPU. The structures are those of DLPack 0.8, which all
// consumers accept.
#include "dlpack.h"

#include <array>
#include <optional>
#include <string_view>

#include "tzmark/error.h"

namespace tzmark::py {
namespace {

struct DLDevice {
  std::int32_t device_type;
  std::int32_t device_id;
};
struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};
static_assert(sizeof(DLManagedTensor) == 64);

constexpr std::int32_t kDLCPU = 1, kDLCUDA = 2;
constexpr const char* kCapsuleName = "dltensor";

// A managed tensor with what it refers to.
struct Managed {
  DLManagedTensor tensor{};
  std::shared_ptr<const void> owner;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
};

struct Code {
  std::string_view name;
  std::uint8_t code;
};
constexpr std::array kCodes = {Code{"bool", 6},           Code{"uint8", 1},
                               Code{"uint16", 1},         Code{"uint32", 1},
                               Code{"uint64", 1},         Code{"int8", 0},
                               Code{"int16", 0},          Code{"int32", 0},
                               Code{"int64", 0},          Code{"float16", 2},
                               Code{"float32", 2},        Code{"float64", 2},
                               Code{"bfloat16", 4},       Code{"complex32", 5},
                               Code{"complex64", 5},      Code{"complex128", 5},
                               Code{"float8_e4m3fn", 10}, Code{"float8_e4m3fnuz", 11},
                               Code{"float8_e5m2", 12},   Code{"float8_e5m2fnuz", 13},
                               Code{"float8_e8m0fnu", 14}};

std::optional<DLDataType> dlpack_type(const Dtype& dtype) {
  if (dtype.big_endian && dtype.item_bytes > 1) return std::nullopt;
  for (const Code& row : kCodes) {
    if (row.name == dtype.name) return DLDataType{row.code, static_cast<std::uint8_t>(dtype.item_bytes * 8), 1};
  }
  return std::nullopt;
}

DLDevice device_of(const TensorMemory& memory) {
  return memory.device ? DLDevice{kDLCUDA, *memory.device} : DLDevice{kDLCPU, 0};
}

void delete_managed(DLManagedTensor* tensor) { delete static_cast<Managed*>(tensor->manager_ctx); }

// Of a capsule that no consumer has taken: a consumer renames it.
void delete_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kCapsuleName) == 0) return;
  auto* const tensor = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, kCapsuleName));
  tensor->deleter(tensor);
}

}  // namespace

Ref make_dlpack(const TensorMemory& memory) {
  const std::optional<DLDataType> type = dlpack_type(memory.dtype);
  if (!type) {
    throw Error(ErrorCode::kUsage,
                "DLPack has no dtype " + (memory.dtype.name.empty() ? memory.dtype.wire
                                          : memory.dtype.big_endian ? "big-endian " + memory.dtype.name
                                                                    : memory.dtype.name));
  }
  if (memory.broadcast) throw Error(ErrorCode::kUsage, "a meta tensor has no data for DLPack");
  auto managed = std::make_unique<Managed>();
  managed->owner = memory.owner;
  managed->shape.assign(memory.shape.begin(), memory.shape.end());
  // Those of a tensor without elements mean nothing, and could be larger than a number holds.
  managed->strides.assign(memory.shape.size(), 1);
  std::int64_t stride = 1;
  for (std::size_t i = memory.bytes == 0 ? 0 : memory.shape.size(); i-- > 0;) {
    managed->strides[i] = stride;
    stride *= managed->shape[i];
  }
  DLTensor& tensor = managed->tensor.dl_tensor;
  tensor.data = memory.bytes == 0 ? nullptr : memory.data;
  tensor.device = device_of(memory);
  tensor.ndim = static_cast<std::int32_t>(managed->shape.size());
  tensor.dtype = *type;
  tensor.shape = managed->shape.data();
  tensor.strides = managed->strides.data();
  managed->tensor.manager_ctx = managed.get();
  managed->tensor.deleter = delete_managed;
  Ref capsule = own(PyCapsule_New(&managed->tensor, kCapsuleName, delete_capsule));
  static_cast<void>(managed.release());
  return capsule;
}

Ref dlpack_device(const TensorMemory& memory) {
  const DLDevice device = device_of(memory);
  return own(Py_BuildValue("(ii)", device.device_type, device.device_id));
}

}  // namespace tzmark::py
