// Makes the HTML page of a run, with the Python renderer that is installed with this program.
#pragma once

#include <atomic>
#include <filesystem>
#include <string>

namespace tzmark::conformance {

// The interpreter is python3, or what the environment variable TZMARK_PYTHON names. Throws UnavailableError if it or
// Jinja2 is missing, EnvironmentError if the page cannot be made for another reason.
void make_page(const std::filesystem::path& renderer, const std::string& json, const std::string& html_file,
               const std::atomic<bool>& cancelled);

}  // namespace tzmark::conformance
