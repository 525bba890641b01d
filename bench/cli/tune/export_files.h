// Writes exports as files: DIR/NAME, in a directory per task.
#pragma once

#include <string>
#include <vector>

#include "tune/exports.h"

namespace tzmark::bench {

// Creates the directory, so that an unwritable one fails before anything is measured. Each file appears complete or not
// at all. For one thread at a time. Errors: TZE-ENV rules.
class ExportFiles {
 public:
  // replaces: existing files; they are kept otherwise. A profile keeps the tasks that the new one of its storage lacks.
  ExportFiles(std::string directory, bool replaces);

  // Returns a line for each file: that it was written, or that it was kept.
  std::vector<std::string> write(const std::vector<Export>& exports);

 private:
  const std::string directory_;
  const bool replaces_;
};

// DIR-relative name of an export: "tzmark-profile.json", "load-cold/fio.fio".
std::string file_name_of(const Export& one);

}  // namespace tzmark::bench
