// The corpus as its manifest describes it: which files there are, how to open them, what a reader has to make of them.
//
// Thread-safety: values; the functions may be called from several threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/json.h"

namespace tzmark::conformance {

enum class Verdict {
  kValid,                  // decodes as expected and verifies
  kMalformed,              // refused: cannot be taken apart
  kInvalid,                // refused: can be taken apart, but breaks a rule
  kAuthenticationFailure,  // refused: with the given key, or none, it must not open
  kIntegrityFailure,       // refused when verifying; may decode, and then as expected
  kImplementationDefined,  // may be refused or read, and then as expected
};

// What a case asks of the implementation under test.
enum class Operation {
  kRead,    // decode and verify a file
  kEncode,  // write a file of a specification
};

// As the manifest spells it, "authentication-failure".
std::string_view name_of(Verdict verdict);

std::string_view name_of(Operation operation);

struct Case {
  std::string id;
  Operation operation = Operation::kRead;
  std::filesystem::path path;  // below the corpus; the file, or the specification
  std::string sha256;
  std::uint64_t size_bytes = 0;
  std::string layout;  // of the file, or that the writer has to end up with
  std::vector<std::string> features;
  Verdict verdict = Verdict::kValid;
  std::string tier;
  std::vector<std::string> rules;
  std::string why;
  Json origin;
  std::optional<std::string> key_hex;
  std::optional<std::string> passphrase;
  std::optional<std::filesystem::path> expected;  // canonical JSON, below the corpus; always there for valid files
  std::uint64_t memory_max_bytes = 0;             // over what the adapter uses when it does nothing
  std::chrono::nanoseconds elapsed_max{0};        // over what the adapter takes to do nothing
  std::optional<std::uint64_t> pipe_max_bytes;    // what a refusal may take from a pipe that does not end
  std::optional<std::string> open_choice;         // of implementation-defined cases: what is left to the reader
  std::optional<std::string> erratum;             // what the file's writer got wrong
};

// A requirement of the format, as its document states it.
struct Rule {
  std::string level;  // MUST or SHOULD
  std::string binds;  // reader, writer or both
  std::string text;
  std::string section;
};

struct Manifest {
  std::filesystem::path directory;  // of the corpus, absolute
  std::string sha256;               // of manifest.json itself
  std::vector<Case> cases;          // first those that read
  std::map<std::string, Rule> rules;
};

// Reads DIRECTORY/manifest.json, and DIRECTORY/rules.json if it is there. Throws EnvironmentError if a file is missing,
// not JSON, or lacks something; two cases of one id, and paths that lead out of the corpus, are refused too.
Manifest load_manifest(const std::filesystem::path& directory);

// Throws EnvironmentError if the file of the case is missing or not the one that the manifest means.
void check_case_file(const Manifest& manifest, const Case& item);

// The expected canonical JSON; nothing if the case has none. Throws EnvironmentError if it cannot be read.
std::optional<Json> load_expected(const Manifest& manifest, const Case& item);

}  // namespace tzmark::conformance
