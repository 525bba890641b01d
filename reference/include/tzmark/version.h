// What this build of tzmark is.
#pragma once

#include <string>

namespace tzmark {

// "0.1.0"
const char* version();
// Of the source, as git tells it; "unknown" outside of a checkout.
const char* commit();
// Version, commit and what is compiled in, on several lines without a line end at the end.
std::string version_text();

}  // namespace tzmark
