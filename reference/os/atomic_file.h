// The state of an AtomicFile, for NameChanges.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "os/attributes.h"
#include "os/directory.h"
#include "os/temporary_name.h"
#include "tzmark/io.h"

namespace tzmark {

struct AtomicFile::State {
  std::shared_ptr<const Directory> directory;
  std::string name;
  Existing existing = Existing::kReplace;
  std::optional<Attributes> attributes_of_new_file;  // for one that replaces nothing
  std::string temporary_file_name;                   // with the directory
  std::optional<TemporaryName> temporary;
  bool linked = false;    // whether the file has its temporary name, or none yet
  Descriptor descriptor;  // empty once the file is finished
  std::unique_ptr<File> file;
};

}  // namespace tzmark
