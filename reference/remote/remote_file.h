// Files that are read by requests to a server.
//
// The functions are thread-safe, and so are reads of the files. Where a build has no header of libcurl, no_curl.cc
// defines them, with the reason.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tzmark/io.h"

namespace tzmark {

// The reason why this process cannot send requests; empty if it can.
std::string why_no_requests();
// The same for requests to S3.
std::string why_no_signed_requests();

using MakeCopy = std::function<std::unique_ptr<File>()>;

// Sends the first request, and returns the file that it describes. Throws TZE-ENV-001 if there is none.
std::unique_ptr<File> open_http(const std::string& url, const MakeCopy& make_copy);
std::unique_ptr<File> open_s3(const std::string& url, const MakeCopy& make_copy);

}  // namespace tzmark
