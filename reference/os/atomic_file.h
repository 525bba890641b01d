// The state of an AtomicFile, and access to it for code that renames several files together.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "os/attributes.h"
#include "os/directory.h"
#include "os/temporary_name.h"
#include "tzmark/io.h"

namespace tzmark {

struct AtomicFile::State {
  State(std::shared_ptr<const Directory> directory, const std::string& final_name, std::string_view io_path,
        Existing existing, std::vector<std::string> like = {});

  // Gives the file its temporary name, if it has none yet.
  void link();

  std::shared_ptr<const Directory> directory;
  std::string name;
  Existing existing = Existing::kReplace;
  std::vector<std::string> like;
  std::optional<Attributes> default_attributes;  // for one that replaces nothing
  std::string temporary_file_name;               // with the directory
  std::optional<TemporaryName> temporary;
  bool linked = false;    // whether the file has its temporary name, or none yet
  Descriptor descriptor;  // empty once the file is finished
  std::unique_ptr<File> file;
};

// Opens the directory of a file. Throws TZE-AVL-001 if durability is required and cannot be had there.
std::shared_ptr<const Directory> directory_for(const std::string& final_name, Durability durability);

// Throws TZE-ENV-001 if an entry of a directory cannot have this name, before anything is written that would get it.
void require_short_name(const std::string& name);

// An atomic file in an open directory, which is that of final_name. If it replaces nothing, it gets the attributes of
// the first of the files `like` that exists: a new file of a model that others cannot read must not be open to them.
class AtomicFileIn final : public AtomicFile {
 public:
  AtomicFileIn(std::shared_ptr<const Directory> directory, const std::string& final_name, std::string_view io_path,
               Existing existing, std::vector<std::string> like = {})
      : AtomicFile(std::make_unique<State>(std::move(directory), final_name, io_path, existing, std::move(like))) {}

  // Lets other processes of this user open the file while it is written. Returns its name in the directory.
  const std::string& name_for_others() {
    state_of(*this).link();
    return state_of(*this).temporary->name();
  }

  static auto& state(const AtomicFile& file) { return state_of(file); }
};

}  // namespace tzmark
