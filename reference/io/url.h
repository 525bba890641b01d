// File names that are URLs: which ones are, their parts, and their form in messages.
//
// The functions are pure. Errors: TZE-USE-001, whose text never repeats what may be secret: user information and query.
#pragma once

#include <string>
#include <string_view>

#include "tzmark/io.h"

namespace tzmark {

// The parts of an http or https URL. Characters that a URL must not contain are percent-encoded in path and query.
struct Url {
  std::string scheme;          // in lower case
  std::string user, password;  // of user:password@, decoded
  std::string host;            // in lower case; an IPv6 address is in brackets
  std::string port;            // empty for that of the scheme
  std::string path;            // begins with a slash
  std::string query;           // begins with a question mark, or is empty

  // "https://host:443". Requests to another origin carry no credentials.
  std::string origin() const;
  // What a request is sent to: everything but the user information.
  std::string address() const;
};

// Returns the scheme of a file name that is a URL, in lower case ("http", "https" or "s3"), or an empty text.
std::string url_scheme(std::string_view file_name);

// REQUIRES: the scheme is http or https.
Url parse_url(std::string_view url);

// Percent-encodes every byte but letters, digits and those of kept.
std::string percent_encoded(std::string_view text, std::string_view kept);

// Returns the last part of a URL's path: what names the format of a file by its suffix.
std::string last_part_of_url(std::string_view url);
// Returns the URL of a file of that name next to another one, with the same user information and without a query.
// REQUIRES: the name contains no slash.
std::string sibling_url(std::string_view url, std::string_view name);

// Returns a message in which no URL has user information or a query, as display_name does it for a name alone.
std::string without_secrets(std::string_view message);

// Throws TZE-USE-001 if the file name is a URL, for operations on files and directories of this machine.
void require_local(std::string_view file_name);

}  // namespace tzmark
