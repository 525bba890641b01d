// Turning C++ exceptions into Python's.
#include "errors.h"

#include <new>
#include <optional>
#include <string>

#include "tzmark/io.h"

namespace tzmark::py {
namespace {

// Calls tzmark._errors.make, which chooses the class, and raises what it returns.
void raise(const Error& error, const std::string& file) {
  const Ref module = own(PyImport_ImportModule("tzmark._errors"));
  const Ref make = own(PyObject_GetAttrString(module.get(), "make"));
  const Ref number = own(PyLong_FromLong(static_cast<long>(error.code())));
  const Ref kind = own(PyLong_FromLong(static_cast<long>(error.error_class())));
  const Ref rule = text(error.rule());
  const Ref message = text(error.message());
  const std::optional<std::uint64_t> at = error.offset();
  const Ref offset = at ? py::number(*at) : none();
  const std::string shown = display_name(file);
  const Ref name = shown.empty()
                       ? none()
                       : own(PyUnicode_DecodeFSDefaultAndSize(shown.data(), static_cast<Py_ssize_t>(shown.size())));
  const Ref exception = own(PyObject_CallFunctionObjArgs(make.get(), number.get(), kind.get(), rule.get(),
                                                         message.get(), offset.get(), name.get(), nullptr));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())), exception.get());
}

}  // namespace

Ref take_exception() {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  const Ref first(type), third(traceback);
  Ref exception(value);
  if (exception && third) check(PyException_SetTraceback(exception.get(), third.get()));
  return exception;
}

std::string text_of(const Ref& exception) {
  const Ref words(exception ? PyObject_Repr(exception.get()) : nullptr);
  if (!words) {
    PyErr_Clear();
    return "an exception";
  }
  return utf8_of(words.get());
}

void set_error(std::exception_ptr exception, const std::string& file) noexcept {
  try {
    try {
      std::rethrow_exception(exception);
    } catch (const PythonError&) {
      return;
    } catch (const FileError& named) {
      raise(named.error, named.file);
    } catch (const Error& error) {
      raise(error, file);
    } catch (const std::bad_alloc&) {
      PyErr_NoMemory();
    } catch (const std::exception& other) {
      PyErr_SetString(PyExc_RuntimeError, other.what());
    }
  } catch (...) {
    // What raise calls has failed, and has set the indicator.
    if (PyErr_Occurred() == nullptr) PyErr_NoMemory();
  }
}

}  // namespace tzmark::py
