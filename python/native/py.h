// Holding references to Python objects, and the interpreter's lock, from C++. Limited C API of CPython 3.10.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <unistd.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

namespace tzmark::py {

// Thrown when a call of the C API has failed: Python's error indicator is set.
struct PythonError {};

// Owns a reference. Every call needs the interpreter's lock, the destructor too.
class Ref {
 public:
  Ref() = default;
  // Takes over a new reference.
  explicit Ref(PyObject* object) : object_(object) {}
  static Ref borrow(PyObject* object) {
    Py_XINCREF(object);
    return Ref(object);
  }
  ~Ref() { Py_XDECREF(object_); }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }

  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// Takes over the result of a call of the C API. Throws PythonError if it is null.
inline Ref own(PyObject* object) {
  if (object == nullptr) throw PythonError{};
  return Ref(object);
}
inline void check(int status) {
  if (status < 0) throw PythonError{};
}

// Until 3.14, CPython ends the other threads of a process that ends by pthread_exit, in any call that takes the
// interpreter's lock. Unwinding from a destructor or a handler would abort the process, and objects may not be released
// any more: the thread waits for the end.
[[noreturn]] inline void wait_for_end() {
  while (true) ::pause();
}

// Releases the interpreter's lock while it exists.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {
      wait_for_end();
    }
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

// Holds the interpreter's lock in a thread that Python may not know.
class Locked {
 public:
  Locked() : state_(ensure()) {}
  ~Locked() { PyGILState_Release(state_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  static PyGILState_STATE ensure() {
    try {
      return PyGILState_Ensure();
    } catch (...) {
      wait_for_end();
    }
  }

  PyGILState_STATE state_;
};

inline Ref text(std::string_view utf8) {
  return own(PyUnicode_DecodeUTF8(utf8.data(), static_cast<Py_ssize_t>(utf8.size()), "surrogateescape"));
}
inline Ref bytes(std::string_view data) {
  return own(PyBytes_FromStringAndSize(data.data(), static_cast<Py_ssize_t>(data.size())));
}
inline Ref number(std::uint64_t value) { return own(PyLong_FromUnsignedLongLong(value)); }
inline Ref truth(bool value) { return own(PyBool_FromLong(value ? 1 : 0)); }
inline Ref none() { return Ref::borrow(Py_None); }

// The bytes of a bytes object, valid as long as it. Throws PythonError for other objects.
inline std::string_view view_of_bytes(PyObject* object) {
  char* data = nullptr;
  Py_ssize_t size = 0;
  check(PyBytes_AsStringAndSize(object, &data, &size));
  return {data, static_cast<std::size_t>(size)};
}
// A copy of a str in UTF-8. Raises TypeError for other objects, and throws kUsage for half of a surrogate pair.
std::string utf8_of(PyObject* object);
inline std::uint64_t number_of(PyObject* object) {
  const std::uint64_t value = PyLong_AsUnsignedLongLong(object);
  if (value == static_cast<std::uint64_t>(-1) && PyErr_Occurred() != nullptr) throw PythonError{};
  return value;
}

// Converters for "O&" of PyArg_Parse: the formats I and K would take what is too large or negative modulo 2^32 or 2^64.
// Take any object with __index__; raise OverflowError.
inline int convert_u64(PyObject* object, void* out) {
  const Ref index(PyNumber_Index(object));
  if (!index) return 0;
  const std::uint64_t value = PyLong_AsUnsignedLongLong(index.get());
  if (value == static_cast<std::uint64_t>(-1) && PyErr_Occurred() != nullptr) return 0;
  *static_cast<std::uint64_t*>(out) = value;
  return 1;
}
inline int convert_unsigned(PyObject* object, void* out) {
  std::uint64_t value = 0;
  if (convert_u64(object, &value) == 0) return 0;
  if (value > std::numeric_limits<unsigned>::max()) {
    PyErr_SetString(PyExc_OverflowError, "the number is 2^32 or more");
    return 0;
  }
  *static_cast<unsigned*>(out) = static_cast<unsigned>(value);
  return 1;
}

// Appends to a list.
inline void append(const Ref& list, const Ref& item) { check(PyList_Append(list.get(), item.get())); }
inline void set(const Ref& dict, const char* key, const Ref& value) {
  check(PyDict_SetItemString(dict.get(), key, value.get()));
}

}  // namespace tzmark::py
