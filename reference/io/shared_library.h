// Libraries that are looked for when the program runs, so that it also runs where they are not installed.
#pragma once

#include <string>
#include <vector>

namespace tzmark {

// A library that is never unloaded: it may have threads of its own.
// May be used from any threads.
class SharedLibrary {
 public:
  // The name that the environment variable holds, if it is set and not empty; else the usual one.
  SharedLibrary(const char* usual_name, const char* environment_variable);

  const std::string& name() const { return name_; }
  // What the loader says; empty if the library is there.
  const std::string& why_not_loaded() const { return why_not_loaded_; }

  // Sets the pointer to the function of that name. What is not there is noted in missing().
  template <typename Function>
  void require(Function*& pointer, const char* symbol) {
    look_for(pointer, symbol);
    if (pointer == nullptr) missing_.emplace_back(symbol);
  }
  // The same for a function that not every version has: null if it is not there.
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
