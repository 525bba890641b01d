// Turning C++ exceptions into Python's.
#pragma once

#include <exception>
#include <string>

#include "py.h"
#include "tzmark/error.h"

namespace tzmark::py {

// An Error about a file other than the one that the call is about.
struct FileError {
  std::string file;
  Error error;
};

// Sets Python's error indicator from an exception: tzmark.Error and its subclasses for tzmark::Error, MemoryError,
// RuntimeError. file: what the call is about, as Error.file; empty if it is about none. Needs the interpreter's lock.
void set_error(std::exception_ptr exception, const std::string& file) noexcept;

// Takes Python's exception, with its traceback. REQUIRES: the error indicator is set. Needs the interpreter's lock.
Ref take_exception();
// What an exception says, as "TypeError('text')". Needs the interpreter's lock.
std::string text_of(const Ref& exception);

// Runs the body of a function of the module. What it throws becomes Python's exception, and the result is null.
template <typename Body>
PyObject* guarded(const std::string& file, Body body) noexcept {
  try {
    return body().release();
  } catch (...) {
    set_error(std::current_exception(), file);
    return nullptr;
  }
}

}  // namespace tzmark::py
