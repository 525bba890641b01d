// The texts that requests to write objects of S3 are made of, and those that answer them. Pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tzmark/digest.h"

namespace tzmark {

std::string hex_text(const Sha256Digest& digest);

// Returns the text of the first element of that name, with its entities replaced; empty if there is none, if it is
// longer than 4 KiB, or if it contains what no such text does: elements, control characters or unknown entities.
std::string xml_text(std::string_view xml, std::string_view element);

// Whether the answer to that XML says that the object is there. Servers send blanks, and then an error, as well.
bool tells_completion(std::string_view xml);

// The XML that completes an upload: the ETag of each part, in their order.
std::string completion_text(std::span<const std::string> etags);

}  // namespace tzmark
