// Identifies this build of tzmark.
#pragma once

#include <string>

namespace tzmark {

// "0.1.0"
const char* version();
// The git commit of the source; "unknown" if it was not built from a git checkout.
const char* commit();
// Version, commit and compiled-in features, on several lines; the last one has no newline.
std::string version_text();

}  // namespace tzmark
