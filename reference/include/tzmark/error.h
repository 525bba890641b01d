// The error type of tzmark, and the table of all errors.
//
// Every failure is thrown as tzmark::Error. It carries a numbered code whose meaning never changes, the id of the
// broken rule, the byte offset in the file where the violation shows (if there is one), and one line of text. Ids that
// begin with TZR- are requirements of the file format; reference/FORMAT.md states each of them, and a test compares
// both lists. Ids that begin with TZE- do not concern the format: the environment failed, the caller passed an invalid
// argument, or this machine lacks a capability. ST- ids are the rules of safetensors files, CKP- ids those of
// checkpoints, and TZX- ids those of an extension by tzmark.
//
// Thread-safety: an Error is a value; the table is constant.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

namespace tzmark {

// The kind of a failure, and the exit status of a command that ends with it.
enum class ErrorClass : std::uint8_t {
  kFile = 1,         // the file breaks a rule
  kUsage = 2,        // invalid argument
  kEnvironment = 3,  // no such file, no space, an I/O error
  kUnavailable = 4,  // not available on this machine or in this build
};

// X(number, enumerator, class, rule id, text). Numbers and rule ids are pinned: never reuse or renumber one.
// The text of a TZR rule is the requirement as FORMAT.md states it.
#define TZMARK_ERROR_TABLE(X)                                                                                          \
  /* File header */                                                                                                    \
  X(101, kHeaderTruncated, kFile, "TZR-HDR-001", "a file begins with a file header of 65 bytes")                       \
  X(102, kHeaderMagic, kFile, "TZR-HDR-002", "the magic is 7C 54 5A 52 7C, |TZR|")                                     \
  X(103, kHeaderVersion, kFile, "TZR-HDR-003", "the data version is 1, 2, 3, 4 or 5")                                  \
  X(104, kHeaderFlags, kFile, "TZR-HDR-004", "from data version 4 on, no reserved feature flag is set")                \
  X(105, kHeaderCount, kFile, "TZR-HDR-005", "the tensor count is at least 1")                                         \
  X(106, kHeaderLowestVersion, kUsage, "TZR-HDR-006",                                                                  \
    "a writer emits the lowest data version that the content needs, and never one below it")                           \
  X(107, kHeaderNoLayout, kFile, "TZR-HDR-007", "a file of data version 5 is in one of the layouts of that version")   \
  X(108, kHeaderTwoLayouts, kFile, "TZR-HDR-008", "a file of data version 5 cannot be read in two layouts")            \
  X(109, kHeaderUnused, kUsage, "TZR-HDR-009",                                                                         \
    "a writer writes zeros into unused bytes, and the right total data bytes")                                         \
  /* Index */                                                                                                          \
  X(201, kIndexTruncated, kFile, "TZR-IDX-001", "the index lies inside the file")                                      \
  X(202, kIndexEntryPastEnd, kFile, "TZR-IDX-002", "every field of every index entry lies inside the index")           \
  X(203, kIndexPadding, kFile, "TZR-IDX-003", "what follows the last entry of the index is zeros")                     \
  X(204, kIndexKind, kFile, "TZR-IDX-004", "the kind is 0, 1 or 2")                                                    \
  X(205, kIndexShapeOverflow, kFile, "TZR-IDX-005", "the size that shape and dtype give is below 2^63 bytes")          \
  X(206, kIndexDataLength, kFile, "TZR-IDX-006",                                                                       \
    "data_length is the product of the shape times the element size, or 0 for a meta tensor")                          \
  X(207, kIndexMetaVersion, kFile, "TZR-IDX-007", "a tensor with elements and no data needs data version 4 or later")  \
  X(208, kIndexHeaderOffset, kFile, "TZR-IDX-008", "a header offset lies inside the file, after the index")            \
  X(209, kIndexDataOffset, kFile, "TZR-IDX-009",                                                                       \
    "in v1 to v4 and v5-long-dims the data of a tensor begins where its header ends")                                  \
  X(210, kIndexDataPastEnd, kFile, "TZR-IDX-010", "the data of every tensor lies inside the file")                     \
  X(211, kIndexOverlap, kFile, "TZR-IDX-011", "no two tensors share a byte of the file")                               \
  X(212, kIndexGap, kFile, "TZR-IDX-012",                                                                              \
    "in v1 to v4 and v5-long-dims records follow the index and each other without a gap")                              \
  X(213, kIndexEntryVersion, kFile, "TZR-IDX-013", "in v5-long-dims the version of an index entry is 1 or 5")          \
  X(214, kIndexFill, kFile, "TZR-IDX-014", "in v5-headers-first and v5-segments the entries fill the index exactly")   \
  X(215, kIndexDataBeforeHeaders, kFile, "TZR-IDX-015",                                                                \
    "in v5-headers-first and v5-segments every tensor header precedes all data")                                       \
  X(216, kIndexOrder, kUsage, "TZR-IDX-016",                                                                           \
    "a writer lays out tensors in the order of the entries, with zeros in gaps")                                       \
  X(217, kIndexDataAlignment, kUsage, "TZR-IDX-017",                                                                   \
    "in v5-headers-first a writer begins the data at a multiple of 4096")                                              \
  X(218, kIndexWideEntry, kUsage, "TZR-IDX-018",                                                                       \
    "a writer gives version 5 to entries with a dimension of 2^32 or more only")                                       \
  X(219, kIndexEmptyDataOffset, kUsage, "TZR-IDX-019",                                                                 \
    "in headers-first layouts an empty tensor's data_offset is where its data would begin")                            \
  /* Segments */                                                                                                       \
  X(251, kSegmentLayout, kFile, "TZR-SEG-001",                                                                         \
    "the layout section has 45 bytes: version 1 and three entries, with the tags 1, 2 and 3")                          \
  X(252, kSegmentOrder, kFile, "TZR-SEG-002", "the segments lie inside the file, in the order metadata, header, data") \
  X(253, kSegmentIndex, kFile, "TZR-SEG-003", "in v5-segments the index lies inside the metadata segment")             \
  X(254, kSegmentHeader, kFile, "TZR-SEG-004", "in v5-segments every tensor header lies inside the header segment")    \
  X(255, kSegmentAlignment, kUsage, "TZR-SEG-005",                                                                     \
    "in v5-segments a writer ends segments at multiples of 4096 and aligns data to 8")                                 \
  /* Tensor header */                                                                                                  \
  X(301, kRecordTerminator, kFile, "TZR-REC-001", "a tensor header that the index names is not the terminator")        \
  X(302, kRecordTruncated, kFile, "TZR-REC-002",                                                                       \
    "a tensor header lies inside the file and ends where its data begins")                                             \
  X(303, kRecordFieldPastEnd, kFile, "TZR-REC-003", "every field of a tensor header lies inside it")                   \
  X(304, kRecordExtraBytes, kFile, "TZR-REC-004", "header_length is exactly the sum of the header's fields")           \
  X(305, kRecordNegativeLength, kFile, "TZR-REC-005", "the data_length of a tensor header is not negative")            \
  X(306, kRecordName, kFile, "TZR-REC-006", "index and header give the same name")                                     \
  X(307, kRecordKind, kFile, "TZR-REC-007", "index and header give the same kind")                                     \
  X(308, kRecordDtype, kFile, "TZR-REC-008", "index and header give the same dtype")                                   \
  X(309, kRecordShape, kFile, "TZR-REC-009", "index and header give the same shape")                                   \
  X(310, kRecordDataLength, kFile, "TZR-REC-010", "index and header give the same data_length")                        \
  /* Terminator */                                                                                                     \
  X(351, kTerminatorMissing, kFile, "TZR-TRM-001", "in v1 to v4 and v5-long-dims eight bytes follow the last record")  \
  X(352, kTerminatorNonzero, kFile, "TZR-TRM-002", "the terminator is zero")                                           \
  /* Names */                                                                                                          \
  X(401, kNameUtf8, kFile, "TZR-NAM-001", "a name is valid UTF-8")                                                     \
  X(402, kNameJson, kFile, "TZR-NAM-002",                                                                              \
    "a structured name is byte 1E and a JSON array of strings and non-negative integers")                              \
  X(403, kNameEmptyPath, kFile, "TZR-NAM-003", "a structured name has at least one element")                           \
  X(404, kNameNewline, kFile, "TZR-NAM-004", "a structured name holds no newline byte, 0A or 0D")                      \
  X(405, kNameKind, kFile, "TZR-NAM-005", "only tensors of kind 2 have structured names")                              \
  X(406, kNameDuplicate, kFile, "TZR-NAM-006", "no two tensors have the same path")                                    \
  X(407, kNamePrefix, kFile, "TZR-NAM-007", "no path is the beginning of another")                                     \
  X(408, kNameMixedSiblings, kFile, "TZR-NAM-008", "siblings are all strings or all integers")                         \
  X(409, kNameUnwritable, kUsage, "TZR-NAM-009",                                                                       \
    "a writer refuses empty names and plain names that begin with the byte 1E")                                        \
  X(410, kNameSpelling, kUsage, "TZR-NAM-010",                                                                         \
    "a writer stores structured names in compact ASCII, and a path of one string plainly")                             \
  /* dtypes */                                                                                                         \
  X(501, kDtypeUnknown, kFile, "TZR-DTY-001", "the dtype is a plain, an opaque or a listed foreign type")              \
  X(502, kDtypeSeparator, kFile, "TZR-DTY-002", "an opaque dtype has exactly one NUL byte, after its <V or |V type")   \
  X(503, kDtypeOpaqueName, kFile, "TZR-DTY-003", "an opaque dtype names a known torch dtype")                          \
  X(504, kDtypeOpaqueSize, kFile, "TZR-DTY-004", "an opaque dtype has the element size of its torch dtype")            \
  X(505, kDtypeNoTyped, kUsage, "TZR-DTY-005",                                                                         \
    "a foreign dtype is listed and verified, but not read as a typed tensor")                                          \
  X(506, kDtypeSpelling, kUsage, "TZR-DTY-006", "a writer marks types of one byte with |")                             \
  /* Hashes */                                                                                                         \
  X(601, kHashPastEnd, kFile, "TZR-HSH-001", "the hash list fills its hashes_length exactly")                          \
  X(602, kHashType, kFile, "TZR-HSH-002", "a hash is of type 0, CRC32, or 1, SHA-256")                                 \
  X(603, kHashSize, kFile, "TZR-HSH-003", "a CRC32 has 4 bytes and a SHA-256 has 32")                                  \
  X(604, kHashNone, kFile, "TZR-HSH-004", "a tensor without any hash does not verify")                                 \
  X(605, kHashCrc32, kFile, "TZR-HSH-005", "the CRC32 is that of the hashed header bytes and the plaintext")           \
  X(606, kHashSha256, kFile, "TZR-HSH-006", "the SHA-256 is that of the hashed header bytes and the plaintext")        \
  X(607, kHashOfSecret, kUsage, "TZR-HSH-007", "a writer stores no CRC32 of data that it encrypts")                    \
  /* Encryption */                                                                                                     \
  X(701, kCryptPastEnd, kFile, "TZR-CRY-001",                                                                          \
    "the crypt block is there in an encrypted file and lies inside its header")                                        \
  X(702, kCryptChunks, kFile, "TZR-CRY-002", "the chunks fill the crypt block exactly")                                \
  X(703, kCryptChunkType, kFile, "TZR-CRY-003", "a crypt chunk is of type 1, 2 or 3")                                  \
  X(704, kCryptTwoCiphers, kFile, "TZR-CRY-004", "a crypt block has at most one cipher chunk")                         \
  X(705, kCryptTwoKdfs, kFile, "TZR-CRY-005", "a crypt block has at most one key derivation chunk")                    \
  X(706, kCryptNoCipher, kFile, "TZR-CRY-006", "in an encrypted file a tensor with data has a cipher chunk")           \
  X(707, kCryptWithoutData, kFile, "TZR-CRY-007", "a tensor without data has an empty crypt block")                    \
  X(708, kCryptChunkSize, kFile, "TZR-CRY-008", "chunk_size is a multiple of 64 and at least 1024")                    \
  X(709, kCryptMacCount, kFile, "TZR-CRY-009", "mac_count is data_length / chunk_size, rounded up")                    \
  X(710, kCryptPayload, kFile, "TZR-CRY-010", "a crypt chunk's length is exactly the sum of its fields")               \
  X(711, kCryptKdfMethod, kFile, "TZR-CRY-011", "the key derivation method is 1")                                      \
  X(712, kCryptKdfAlg, kFile, "TZR-CRY-012", "the key derivation algorithm is 2, Argon2id v1.3")                       \
  X(713, kCryptKdfSalt, kFile, "TZR-CRY-013", "the salt has 16 bytes")                                                 \
  X(714, kCryptKdfMinimum, kFile, "TZR-CRY-014", "memlimit is at least 8192 bytes and opslimit at least 1")            \
  X(715, kCryptKdfLimit, kFile, "TZR-CRY-015",                                                                         \
    "a reader caps memlimit and opslimit, and how many keys a file derives")                                           \
  X(716, kCryptMac, kFile, "TZR-CRY-016", "the MAC of every message is right under the key")                           \
  X(717, kCryptNotEncrypted, kFile, "TZR-CRY-017", "a key is given for encrypted files only")                          \
  X(718, kCryptKeyMissing, kFile, "TZR-CRY-018", "the data of an encrypted file is not read without a key")            \
  X(719, kCryptNoKdf, kFile, "TZR-CRY-019", "a passphrase opens only tensors with a key derivation chunk")             \
  X(720, kCryptNonceTwice, kUsage, "TZR-CRY-020", "no nonce is used twice under one key")                              \
  X(721, kCryptSequential, kUsage, "TZR-CRY-021", "a writer seals data with the parallel cipher")                      \
  X(722, kCryptSaltTwice, kUsage, "TZR-CRY-022", "a writer takes a fresh random salt for every new file")              \
  X(723, kCryptBlankPassphrase, kUsage, "TZR-CRY-023",                                                                 \
    "a writer refuses a passphrase that is empty or only white space")                                                 \
  X(724, kCryptCheapKdf, kUsage, "TZR-CRY-024",                                                                        \
    "unless its user asks for less, a writer takes at least opslimit 2 and memlimit 19 MiB")                           \
  /* safetensors: reference/SAFETENSORS.md states these */                                                             \
  X(801, kStTruncated, kFile, "ST-001", "a file begins with the 8 bytes of the length of its header")                  \
  X(802, kStHeaderTooLarge, kFile, "ST-002", "the header has at most 100000000 bytes")                                 \
  X(803, kStHeaderPastEnd, kFile, "ST-003", "the header lies inside the file")                                         \
  X(804, kStHeaderUtf8, kFile, "ST-004", "the header is valid UTF-8")                                                  \
  X(805, kStHeaderStart, kFile, "ST-005", "the header begins with an opening brace")                                   \
  X(806, kStHeaderJson, kFile, "ST-006",                                                                               \
    "the header is a JSON object of tensors, each with dtype, shape and data_offsets")                                 \
  X(807, kStHeaderPadding, kFile, "ST-007", "nothing but spaces follows the object of the header")                     \
  X(808, kStDuplicateKey, kFile, "ST-008", "no object of the header has a key twice")                                  \
  X(809, kStMetadata, kFile, "ST-009", "__metadata__ maps strings to strings")                                         \
  X(810, kStDtype, kFile, "ST-010", "the dtype is one of those that the format lists")                                 \
  X(811, kStShapeOverflow, kFile, "ST-011", "the size that shape and dtype give is below 2^64 bits")                   \
  X(812, kStMisaligned, kFile, "ST-012", "the size of a tensor is a whole number of bytes")                            \
  X(813, kStTensorSize, kFile, "ST-013", "the data_offsets of a tensor span the size that its shape and dtype give")   \
  X(814, kStOffsets, kFile, "ST-014", "the data of the tensors begins at 0 and has neither holes nor overlaps")        \
  X(815, kStDataEnd, kFile, "ST-015", "the data ends where the file ends")                                             \
  X(816, kStShardIndex, kFile, "ST-016",                                                                               \
    "the index of shards maps the names of tensors to files of its own directory")                                     \
  X(817, kStShardsDisagree, kFile, "ST-017", "the index of shards and the shards name the same tensors")               \
  X(818, kStUnwritable, kUsage, "ST-018", "a writer refuses what a safetensors file cannot hold")                      \
  /* Checkpoints: reference/CHECKPOINTS.md states these */                                                             \
  X(851, kCheckpointUncommitted, kFile, "CKP-001", "a checkpoint has the commit.json of a save that came to its end")  \
  X(852, kCheckpointDamaged, kFile, "CKP-002",                                                                         \
    "every file of a checkpoint has the size and the digest that commit.json gives")                                   \
  X(853, kCheckpointState, kFile, "CKP-003",                                                                           \
    "training_state.json is an object with a step, which commit.json and all ranks give too")                          \
  X(854, kCheckpointWorld, kUsage, "CKP-004", "as many ranks load a sharded checkpoint as have saved it")              \
  X(855, kCheckpointShards, kFile, "CKP-005",                                                                          \
    "the shards of a checkpoint fit together, and no rank lacks a parameter")                                          \
  X(856, kCheckpointPeer, kEnvironment, "CKP-006",                                                                     \
    "a sharded save is committed only when every rank has written its shard of it")                                    \
  /* Detached data, an extension by tzmark: FORMAT.md, appendix A */                                                   \
  X(871, kDetachedDataFile, kFile, "TZX-SPL-001", "a detached data file begins with its own header of 4096 bytes")     \
  X(872, kDetachedDataPair, kFile, "TZX-SPL-002", "a file and its detached data carry the same pair number")           \
  /* Not about the format */                                                                                           \
  X(901, kUsage, kUsage, "TZE-USE-001", "invalid argument")                                                            \
  X(902, kNoSuchTensor, kUsage, "TZE-USE-002", "the file has no such tensor")                                          \
  X(903, kOpenFailed, kEnvironment, "TZE-ENV-001", "the file cannot be opened")                                        \
  X(904, kReadFailed, kEnvironment, "TZE-ENV-002", "reading failed")                                                   \
  X(905, kWriteFailed, kEnvironment, "TZE-ENV-003", "writing failed")                                                  \
  X(906, kSyncFailed, kEnvironment, "TZE-ENV-004", "the data could not be made durable")                               \
  X(907, kFileChanged, kEnvironment, "TZE-ENV-005", "the file changed while it was read")                              \
  X(908, kResource, kEnvironment, "TZE-ENV-006", "the machine ran out of memory or another resource")                  \
  X(909, kUnavailable, kUnavailable, "TZE-AVL-001", "not available on this machine")                                   \
  X(910, kEditInterrupted, kEnvironment, "TZE-ENV-007", "interrupted in-place edit: run `tzmark edit --recover`")      \
  X(911, kFileLocked, kEnvironment, "TZE-ENV-008", "another process is editing the file")

enum class ErrorCode : std::uint16_t {
#define TZMARK_ENUMERATOR(number, name, cls, rule, text) name = number,
  TZMARK_ERROR_TABLE(TZMARK_ENUMERATOR)
#undef TZMARK_ENUMERATOR
};

struct ErrorInfo {
  ErrorCode code;
  ErrorClass error_class;
  std::string_view rule;
  std::string_view text;
};

// Returns the table's row for a code.
const ErrorInfo& error_info(ErrorCode code) noexcept;

// Returns a pointer to the first of all rows, which are sorted by number; count receives their number.
const ErrorInfo* error_table(std::size_t& count) noexcept;

class Error : public std::exception {
 public:
  // detail: what was found; if empty, the message is the text of the rule.
  Error(ErrorCode code, std::string detail, std::optional<std::uint64_t> offset = std::nullopt);

  ErrorCode code() const noexcept { return code_; }
  std::string_view rule() const noexcept { return error_info(code_).rule; }
  ErrorClass error_class() const noexcept { return error_info(code_).error_class; }
  // The byte offset in the file.
  std::optional<std::uint64_t> offset() const noexcept { return offset_; }
  // What was found, in one line, without rule and offset.
  const std::string& message() const noexcept { return message_; }
  // "error TZR-IDX-002 at byte 73: name runs past the end of the index"
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  ErrorCode code_;
  std::optional<std::uint64_t> offset_;
  std::string message_;
  std::string what_;
};

}  // namespace tzmark
