// Arguments that several functions of the module take.
#pragma once

#include <optional>
#include <string>

#include "py.h"
#include "tzmark/crypto.h"
#include "tzmark/hashes.h"
#include "tzmark/path.h"
#include "tzmark/writer.h"

namespace tzmark::py {

// key: None or 32 bytes; passphrase: None or bytes. Throws Error kUsage if both are given, or one is empty.
std::optional<KeySource> key_source(PyObject* key, PyObject* passphrase);

// "none", "crc32" or "all". Throws Error kUsage.
Verification verification(const char* name);

// A path is a str, or a tuple of str and int. Throws PythonError (TypeError) for anything else.
Path path_of(PyObject* name);
// The same back: a path of one string is a str.
Ref name_object(const Path& path);

// The options of writers, from a dict of Python with the members layout, crc32, sha256, key, passphrase, chunk_bytes,
// opslimit, memlimit, io, threads, replace, metadata, shard_bytes. tzmark/_save.py makes the dict.
struct OutputOptions {
  explicit OutputOptions(PyObject* dict);

  WriteOptions write;
  std::map<std::string, std::string> metadata, index_metadata;
  std::uint64_t shard_bytes = 0;
};

}  // namespace tzmark::py
