// Libraries that are loaded at run time, so that programs run without them.
#pragma once

#include <string>
#include <vector>

namespace tzmark {

// A library that is never unloaded, since it may have started threads. Thread-safe.
class SharedLibrary {
 public:
  // Loads the library that the environment variable names or, if that is unset or empty, the usual one.
  SharedLibrary(const char* usual_name, const char* environment_variable);

  const std::string& name() const { return name_; }
  // The error of the loader; empty if the library is loaded.
  const std::string& why_not_loaded() const { return why_not_loaded_; }

  // Sets the pointer to the function of that name; adds the name to missing() if there is none.
  template <typename Function>
  void require(Function*& pointer, const char* symbol) {
    look_for(pointer, symbol);
    if (pointer == nullptr) missing_.emplace_back(symbol);
  }
  // The same for an optional function: null if there is none.
  template <typename Function>
  void look_for(Function*& pointer, const char* symbol) const {
    pointer = reinterpret_cast<Function*>(address_of(symbol));
  }
  const std::vector<std::string>& missing() const { return missing_; }

 private:
  void* address_of(const char* symbol) const;

  std::string name_;
  std::string why_not_loaded_;
  void* handle_ = nullptr;
  std::vector<std::string> missing_;
};

}  // namespace tzmark
