// The corpus as its manifest describes it: its files, their keys, and the required answers.
//
// Thread-safety: values; the functions may be called from several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/json.h"
#include "runner/limits.h"

namespace tzmark::conformance {

enum class Verdict {
  kValid,                  // decodes as expected and verifies
  kMalformed,              // rejected: cannot be parsed
  kInvalid,                // rejected: can be parsed, but breaks a rule
  kAuthenticationFailure,  // rejected: must not open with the given key, or without one
  kIntegrityFailure,       // rejected by verify; may decode, and then as expected
  kImplementationDefined,  // may be rejected, or read as expected
};

// What a case asks the implementation to do.
enum class Operation {
  kRead,    // decode and verify a file
  kEncode,  // write the file of a specification
};

// The name in the manifest, such as "authentication-failure".
std::string_view name_of(Verdict verdict);

std::string_view name_of(Operation operation);

// A question that the format leaves to readers, under the name that cases and --policy use.
struct OpenChoice {
  std::string text;
  std::vector<std::string> rules;   // that leave it open
  bool tzmark_accepts = false;      // the answer of tzmark
  bool rejected_by_verify = false;  // a rejecting reader may decode such a file, but does not verify it
};

// The answer that a run requires of a case that is left to readers.
struct Policy {
  bool accepts = false;
  bool rejected_by_verify = false;  // as in OpenChoice
};

// "accept" or "reject".
std::string_view name_of(const Policy& policy);

// A file that an index of shards lists, or that a careless reader would take for it.
struct ShardPath {
  std::filesystem::path path;  // below the corpus
  std::string name;            // relative to the index, and at most one directory above it
  std::string sha256;
  std::uint64_t size_bytes = 0;
};

struct Case {
  std::string id;
  Operation operation = Operation::kRead;
  std::filesystem::path path;  // below the corpus; the file, or the specification
  std::string sha256;
  std::uint64_t size_bytes = 0;
  std::vector<ShardPath> shards;  // of an index of shards
  // Text that stands in the file for the absolute path of the directory that it is staged in; empty: none.
  std::string directory_placeholder;
  std::string layout;  // of the file, or that the writer must choose
  std::vector<std::string> features;
  Verdict verdict = Verdict::kValid;
  std::string tier;
  std::vector<std::string> rules;
  std::string why;
  Json origin;
  std::optional<std::string> key_hex;
  std::optional<std::string> passphrase;
  std::optional<std::filesystem::path> expected;     // canonical JSON, below the corpus; always there for valid files
  std::string expected_sha256;                       // of that file, if there is one
  std::shared_ptr<const std::string> expected_text;  // its content, once load_expected has read it
  Limits limits;
  std::optional<std::uint64_t> pipe_max_bytes;  // what a reader may take from an endless pipe before it rejects
  std::optional<std::string> open_choice;       // of implementation-defined cases: what the reader may choose
  std::optional<std::string> choice_name;       // of these: the name of the choice
  std::optional<Policy> policy;                 // of these: the answer that the run requires; never in a manifest
  std::optional<std::string> erratum;           // the fault of the file's writer
  std::optional<std::string> sequence;          // cases with the same one are asked one after another, of one process
};

// The verdict by which answers are judged: that of the manifest, or for a case with a policy, the one that it requires.
Verdict required_verdict(const Case& item);

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
  std::string rules_sha256;         // of rules.json; empty if there is none
  std::vector<Case> cases;          // first those that read
  std::map<std::string, Rule> rules;
  std::map<std::string, OpenChoice> open_choices;
};

// Reads DIRECTORY/manifest.json, and DIRECTORY/rules.json if it is there. Throws EnvironmentError if a file is missing,
// a link, not JSON, or lacks something; two cases of one id, ids that are no file names, paths that lead out of the
// corpus, choices that the manifest does not describe, and shards that cannot be staged are refused too.
Manifest load_manifest(const std::filesystem::path& directory);

// The members "layout" to "why" of a case, as the manifest and results have them.
Json describe(const Case& item);

// The file of a case, or its specification. Throws EnvironmentError if it is missing or differs from the manifest.
std::vector<std::byte> read_case_file(const Manifest& manifest, const Case& item);

// A file of a model that consists of several.
struct Shard {
  std::string name;                                       // relative to the index
  std::shared_ptr<const std::vector<std::byte>> content;  // one for all of the same path
};

// Throws EnvironmentError if a file is missing or differs from the manifest.
std::vector<Shard> read_shards(const Manifest& manifest, const Case& item);

// Throws as read_case_file and read_shards do, and for the expected answer. Has one file in memory at a time.
void check_files(const Manifest& manifest, const Case& item);

// Reads the expected answers of cases into them. An adapter could overwrite the files, so this comes before its start.
// Throws EnvironmentError if a file is missing or differs from the manifest.
void load_expected(const Manifest& manifest, std::vector<Case>& cases);

// The expected canonical JSON, if the case has it. Throws EnvironmentError if it is not JSON.
// REQUIRES: load_expected has read it.
std::optional<Json> expected_of(const Case& item);

// Throws EnvironmentError if the manifest, its rules, or a file of one of these cases is no longer what was read.
void check_unchanged(const Manifest& manifest, const std::vector<Case>& cases);

}  // namespace tzmark::conformance
