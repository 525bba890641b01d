// Loading libraries.
#include "io/shared_library.h"

#include <dlfcn.h>

#include <cstdlib>

namespace tzmark {

SharedLibrary::SharedLibrary(const char* usual_name, const char* environment_variable) {
  const char* from_environment = std::getenv(environment_variable);
  name_ = from_environment != nullptr && *from_environment != '\0' ? from_environment : usual_name;
  handle_ = ::dlopen(name_.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ != nullptr) return;
  const char* message = ::dlerror();
  why_not_loaded_ = message == nullptr ? name_ + ": cannot be loaded" : message;
}

void* SharedLibrary::address_of(const char* symbol) const {
  return handle_ == nullptr ? nullptr : ::dlsym(handle_, symbol);
}

}  // namespace tzmark
