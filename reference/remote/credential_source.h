// Fetches temporary credentials from an endpoint, and keeps them in the process until they have to be fetched again.
//
// Thread-safe: one thread fetches, and the others wait only if there are no valid credentials. A failed fetch while
// they are valid is no error. REQUIRES: Curl::instance() is available.
#pragma once

#include "remote/credentials.h"

namespace tzmark {

// is_interruptible: whether the wait check of tzmark/io.h may end it. Throws TZE-ENV-001, or TZE-USE-001 for a token
// file.
TemporaryCredentials current_credentials(const CredentialsEndpoint& endpoint, bool is_interruptible);

}  // namespace tzmark
