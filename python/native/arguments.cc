// Arguments that several functions of the module take.
#include "arguments.h"

#include <array>
#include <string_view>

#include "tzmark/error.h"

namespace tzmark::py {
namespace {

// A borrowed member of a dict. Throws PythonError (KeyError) without one.
PyObject* member(PyObject* dict, const char* name) {
  PyObject* const value = PyDict_GetItemString(dict, name);
  if (value == nullptr) {
    PyErr_SetString(PyExc_KeyError, name);
    throw PythonError{};
  }
  return value;
}

bool truth_of(PyObject* object) {
  const int value = PyObject_IsTrue(object);
  check(value);
  return value == 1;
}

// Python's text for a number that does not fit says neither which one nor what fits.
std::uint64_t position_of(PyObject* element, PyObject* name) {
  const std::uint64_t value = PyLong_AsUnsignedLongLong(element);
  if (value == static_cast<std::uint64_t>(-1) && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    PyErr_Format(PyExc_OverflowError, "the name %R has the integer %R: from 0 to 2^64 - 1 is possible", name, element);
    throw PythonError{};
  }
  return value;
}

}  // namespace

std::string utf8_of(PyObject* object) {
  if (PyUnicode_Check(object) == 0) {
    PyErr_Format(PyExc_TypeError, "a str is wanted, not %R", object);
    throw PythonError{};
  }
  if (const Ref encoded(PyUnicode_AsUTF8String(object)); encoded) return std::string(view_of_bytes(encoded.get()));
  if (PyErr_ExceptionMatches(PyExc_UnicodeEncodeError) == 0) throw PythonError{};
  PyErr_Clear();
  const Ref words = own(PyObject_ASCII(object));
  throw Error(ErrorCode::kUsage, utf8_of(words.get()) + " has half of a surrogate pair, which UTF-8 cannot encode");
}

std::optional<KeySource> key_source(PyObject* key, PyObject* passphrase) {
  if (key != Py_None && passphrase != Py_None) {
    throw Error(ErrorCode::kUsage, "a key and a passphrase are given, and a file has one of them");
  }
  if (key != Py_None) {
    const std::string_view bytes = view_of_bytes(key);
    if (bytes.size() != kKeyBytes) {
      throw Error(ErrorCode::kUsage, "a key has 32 bytes, and this one has " + std::to_string(bytes.size()));
    }
    return Key(std::span<const std::byte, kKeyBytes>(reinterpret_cast<const std::byte*>(bytes.data()), kKeyBytes));
  }
  if (passphrase != Py_None) {
    const std::string_view bytes = view_of_bytes(passphrase);
    if (bytes.empty()) throw Error(ErrorCode::kUsage, "the passphrase is empty");
    return Passphrase(bytes);
  }
  return std::nullopt;
}

Verification verification(const char* name) {
  const std::string_view text = name;
  if (text == "none") return Verification::kNone;
  if (text == "crc32") return Verification::kCrc32;
  if (text == "all") return Verification::kAll;
  throw Error(ErrorCode::kUsage, "verify is True, False or \"crc32\"");
}

Path path_of(PyObject* name) {
  if (PyUnicode_Check(name)) return {utf8_of(name)};
  if (!PyTuple_Check(name)) {
    PyErr_Format(PyExc_TypeError, "the name of a tensor is a str, or a tuple of str and int, not %R", name);
    throw PythonError{};
  }
  Path path;
  for (Py_ssize_t i = 0; i < PyTuple_Size(name); ++i) {
    PyObject* const element = PyTuple_GetItem(name, i);
    if (PyUnicode_Check(element)) {
      path.emplace_back(utf8_of(element));
    } else if (PyLong_Check(element) != 0 && PyBool_Check(element) == 0) {
      path.emplace_back(position_of(element, name));
    } else {
      PyErr_Format(PyExc_TypeError, "an element of a structured name is a str or an int: %R", name);
      throw PythonError{};
    }
  }
  return path;
}

Ref name_object(const Path& path) {
  if (path.size() == 1) {
    if (const auto* const name = std::get_if<std::string>(&path.front())) return text(*name);
  }
  Ref tuple = own(PyTuple_New(static_cast<Py_ssize_t>(path.size())));
  for (std::size_t i = 0; i < path.size(); ++i) {
    const auto* const name = std::get_if<std::string>(&path[i]);
    Ref element = name != nullptr ? text(*name) : number(std::get<std::uint64_t>(path[i]));
    check(PyTuple_SetItem(tuple.get(), static_cast<Py_ssize_t>(i), element.release()));
  }
  return tuple;
}

OutputOptions::OutputOptions(PyObject* dict) {
  if (PyObject* const layout = member(dict, "layout"); layout != Py_None) {
    const std::string name = utf8_of(layout);
    write.layout = layout_from_name(name);
    if (!write.layout) throw Error(ErrorCode::kUsage, "there is no layout '" + name + "'");
  }
  write.crc32 = truth_of(member(dict, "crc32"));
  write.sha256 = truth_of(member(dict, "sha256"));
  if (auto key = key_source(member(dict, "key"), member(dict, "passphrase"))) {
    write.encrypt.emplace();
    write.encrypt->key = std::move(*key);
    write.encrypt->chunk_bytes = number_of(member(dict, "chunk_bytes"));
    write.encrypt->opslimit = number_of(member(dict, "opslimit"));
    write.encrypt->memlimit = number_of(member(dict, "memlimit"));
  }
  write.io_path = utf8_of(member(dict, "io"));
  if (convert_unsigned(member(dict, "threads"), &write.threads) == 0) throw PythonError{};
  write.existing = truth_of(member(dict, "replace")) ? AtomicFile::Existing::kReplace : AtomicFile::Existing::kRefuse;
  if (truth_of(member(dict, "require_durable"))) write.durability = Durability::kRequired;
  shard_bytes = number_of(member(dict, "shard_bytes"));
  PyObject* const entries = member(dict, "metadata");
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t at = 0;
  while (PyDict_Next(entries, &at, &key, &value) != 0) metadata.insert_or_assign(utf8_of(key), utf8_of(value));
}

}  // namespace tzmark::py
