// The key or the passphrase of a file, out of a file of its own.
//
// Thread-safety: pure functions of the file system.
#pragma once

#include <string>

#include "mutation/failure.h"

namespace tzmark::conformance {

// Either name may be empty. A key file has 32 raw bytes or 64 hexadecimal digits; of a passphrase the newline at its
// end is no part. Throws EnvironmentError if the file cannot be read, and UsageError if it holds no key.
mutation::FileSecret secret_of_files(const std::string& key_file, const std::string& passphrase_file);

}  // namespace tzmark::conformance
