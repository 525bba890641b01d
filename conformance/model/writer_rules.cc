// What FORMAT.md asks of writers beyond what readers check; see writer_rules.h.
#include "model/writer_rules.h"

#include <algorithm>
#include <utility>

#include "model/hashes.h"
#include "model/opening.h"
#include "model/text.h"

namespace tzmark::conformance::model {
namespace {

constexpr std::uint64_t kBlockBytes = 4096;
constexpr std::uint64_t kDataAlignmentBytes = 8;
constexpr std::uint64_t kTerminatorBytes = 8;
constexpr std::uint64_t kShortDims = std::uint64_t{1} << 32;

bool all_zero(Bytes bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

bool has_long_dim(const Tensor& tensor) {
  return std::any_of(tensor.shape.begin(), tensor.shape.end(), [](std::uint64_t dim) { return dim >= kShortDims; });
}

class WriterCheck {
 public:
  explicit WriterCheck(Reading& reading) : file_(reading.file), reading_(&reading), notes_(&reading.notes) {}

  void run() const {
    check_file_header();
    check_data_version();
    for (std::size_t i = 0; i < reading_->tensors.size(); ++i) {
      check_entry(i);
      check_hashes_and_cipher(i);
    }
    check_nonces();
    check_order();
    if (reading_->layout->headers_first) check_empty_tensors();
    if (reading_->layout->segments) check_segments();
    reading_->layout->headers_first ? check_headers_first_end() : check_end();
  }

 private:
  // A field that has another value than a writer should give it.
  void writer_defect(std::string_view rule, const Value& value, const StructureId& structure, Content wanted) const {
    const bool is_number = value.size <= sizeof value.number && value.name != "name" && value.name != "dtype";
    notes_->writer_defect({.rule = std::string(rule),
                           .offset = value.offset,
                           .clause = Clause::kValue,
                           .structure = structure,
                           .field = value.name,
                           .got = is_number ? Content(value.number)
                                            : Content(std::string(text_of(file_.subspan(value.offset, value.size)))),
                           .wanted = std::move(wanted)});
  }

  // What is wrong as a whole.
  void writer_defect(std::string_view rule, std::uint64_t offset, const StructureId& structure,
                     std::string_view says) const {
    notes_->writer_defect(
        {.rule = std::string(rule), .offset = offset, .structure = structure, .wanted = Words{std::string(says)}});
  }

  void check_file_header() const {
    std::uint64_t sum = 0;
    for (const Tensor& tensor : reading_->tensors) sum += tensor.data_length;
    const Value& total = *reading_->file_header.find("total data bytes");
    if (total.number != sum) {
      writer_defect("TZR-HDR-009", total, {kFileHeader.name}, sum);
    }
    check_zero(*reading_->file_header.find("unused"));
    if (reading_->layout->data_version < 4) check_zero(*reading_->file_header.find("feature flags"));
  }

  void check_zero(const Value& unused) const {
    if (all_zero(file_.subspan(unused.offset, unused.size))) return;
    writer_defect("TZR-HDR-009", unused, {kFileHeader.name}, Words{"zeros, as it is not used here"});
  }

  void check_data_version() const {
    const auto any = [&](auto test) { return std::any_of(reading_->tensors.begin(), reading_->tensors.end(), test); };
    const Layout& lowest = lowest_layout({.long_dims = any(has_long_dim),
                                          .opaque_dtypes = any([](const Tensor& t) { return t.dtype.opaque; }),
                                          .meta_tensors = any([](const Tensor& t) { return t.meta; }),
                                          .encryption = reading_->encrypted});
    const std::string_view needed = lowest.name;
    const Value& version = *reading_->file_header.find("data version");
    const std::uint64_t needed_version = lowest.data_version;
    if (needed == reading_->layout->name && version.number == needed_version) return;
    if (needed == reading_->layout->name) {
      return writer_defect("TZR-HDR-006", version, {kFileHeader.name}, needed_version);
    }
    notes_->writer_defect({.rule = "TZR-HDR-006",
                           .offset = version.offset,
                           .clause = version.number >= needed_version ? Clause::kHigherLayout : Clause::kWriterLayout,
                           .field = version.name,
                           .got = Words{std::string(reading_->layout->name)},
                           .wanted = Words{std::string(needed)}});
  }

  void check_entry(std::size_t i) const {
    const Tensor& tensor = reading_->tensors[i];
    const StructureId id{kIndexEntry.name, i};
    const auto text = [&](std::string_view name) {
      const Value& value = *tensor.entry.find(name);
      return text_of(file_.subspan(value.offset, value.size));
    };
    const Value& name = *tensor.entry.find("name");
    if (text("name").empty()) writer_defect("TZR-NAM-009", name.offset, id, "the name is empty");
    if (tensor.name.structured && tensor.name.path) {
      const std::string spelling = serialize_name(*tensor.name.path);
      if (spelling != text("name")) {
        writer_defect("TZR-NAM-010", name, id, spelling);
      }
    }
    if (!text("dtype").starts_with(tensor.dtype.writers_prefix)) {
      const std::string& prefix = tensor.dtype.writers_prefix;
      writer_defect("TZR-DTY-006", *tensor.entry.find("dtype"), id,
                    prefix + std::string(text("dtype").substr(prefix.size())));
    }
    const Value* version = tensor.entry.find("entry_version");
    if (version && (version->number == 5) != has_long_dim(tensor)) {
      writer_defect("TZR-IDX-018", *version, id, std::uint64_t{has_long_dim(tensor) ? 5u : 1u});
    }
  }

  void check_hashes_and_cipher(std::size_t i) const {
    const Tensor& tensor = reading_->tensors[i];
    if (!reading_->encrypted || tensor.data_length == 0) return;
    for (const StoredHash& hash : stored_hashes(*tensor.header)) {
      if (hash.type != kHashCrc32) continue;
      writer_defect("TZR-HSH-007", hash.value->offset, {kTensorHeader.name, i, kHash.name, hash.number},
                    "a CRC32 of encrypted data gives it away");
    }
    const ParsedStructure* cipher = cipher_of(*tensor.header);
    if (cipher && cipher->find("chunk_type")->number == kChunkSequential) {
      writer_defect("TZR-CRY-021", cipher->begin, {kTensorHeader.name, i}, "writers use the parallel cipher");
    }
  }

  // What the key is derived from, as far as the file tells: one key for all tensors that do not say.
  std::string key_source(const ParsedStructure& header) const {
    for (const ParsedStructure* body : crypt_chunk_bodies(header)) {
      if (body->find("chunk_type")->number != kChunkKeyDerivation) continue;
      return std::string(text_of(file_.subspan(body->begin, body->end - body->begin)));
    }
    return "";
  }

  void check_nonces() const {
    std::set<std::pair<std::string, std::array<unsigned char, 24>>> used;
    for (std::size_t i = 0; i < reading_->tensors.size(); ++i) {
      const Tensor& tensor = reading_->tensors[i];
      const ParsedStructure* cipher = reading_->encrypted ? cipher_of(*tensor.header) : nullptr;
      if (!cipher) continue;
      const std::string key = key_source(*tensor.header);
      for (const Message& message : messages_of(file_, *cipher, tensor.data_length)) {
        if (used.emplace(key, message.nonce).second) continue;
        writer_defect("TZR-CRY-020", cipher->begin, {kTensorHeader.name, i}, "a nonce serves a second time");
        break;
      }
    }
  }

  // Headers, and data where there is some, are in the order of the entries.
  void check_order() const {
    std::uint64_t header_offset = 0;
    std::uint64_t data_offset = 0;
    for (std::size_t i = 0; i < reading_->tensors.size(); ++i) {
      const Tensor& tensor = reading_->tensors[i];
      const bool data_in_order = tensor.data_length == 0 || *tensor.data_offset >= data_offset;
      if (*tensor.header_offset < header_offset || !data_in_order) {
        writer_defect("TZR-IDX-016", tensor.entry.begin, {kIndexEntry.name, i},
                      "records are not in the order of the entries");
        return;
      }
      header_offset = *tensor.header_offset;
      if (tensor.data_length > 0) data_offset = *tensor.data_offset;
    }
  }

  // Tensors without data have offsets between those of the entries around them.
  void check_empty_tensors() const {
    const std::vector<Tensor>& tensors = reading_->tensors;
    const bool segments = reading_->layout->segments;
    const std::uint64_t base = segments ? reading_->layout_section->find("data_start")->number : 0;
    // What lies before the data, and after each tensor the terminator.
    std::uint64_t least = base;
    for (const Tensor& tensor : tensors) least = std::max(least, *tensor.header_end);
    std::vector<std::uint64_t> most(tensors.size());
    std::uint64_t next = file_.size() - std::min<std::uint64_t>(file_.size(), kTerminatorBytes);
    for (std::size_t i = tensors.size(); i-- > 0;) {
      if (tensors[i].data_length > 0) next = *tensors[i].data_offset;
      most[i] = next;
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const std::uint64_t offset = *tensors[i].data_offset;
      if (tensors[i].data_length > 0) {
        least = offset + tensors[i].data_length;
        continue;
      }
      const bool aligned = !segments || (offset - base) % kDataAlignmentBytes == 0;
      if (offset >= least && offset <= most[i] && aligned) continue;
      notes_->writer_defect({.rule = "TZR-IDX-019",
                             .offset = tensors[i].entry.find("data_offset")->offset,
                             .clause = segments ? Clause::kEmptyTensorInSegment : Clause::kEmptyTensor,
                             .structure = {kIndexEntry.name, i},
                             .field = "data_offset",
                             .got = offset,
                             .wanted = Numbers{least, most[i]}});
    }
  }

  void check_segments() const {
    const auto bound = [&](std::string_view name) -> const Value& { return *reading_->layout_section->find(name); };
    const auto check = [&](std::string_view name, bool right, std::string_view wanted) {
      if (!right) writer_defect("TZR-SEG-005", bound(name), {kLayoutSection.name}, Words{std::string(wanted)});
    };
    const auto number = [&](std::string_view name) { return bound(name).number; };
    const std::uint64_t section_end = bound("data_start").offset + bound("data_start").size;
    check("metadata_start", number("metadata_start") == section_end, "where the layout section ends");
    check("metadata_end", number("metadata_end") % kBlockBytes == 0, "a multiple of 4096");
    check("header_start", number("header_start") == number("metadata_end"), "metadata_end");
    check("header_end", number("header_end") % kBlockBytes == 0, "a multiple of 4096");
    check("data_start", number("data_start") == number("header_end"), "header_end");
    for (std::size_t i = 0; i < reading_->tensors.size(); ++i) {
      const Value& offset = *reading_->tensors[i].entry.find("data_offset");
      if (reading_->tensors[i].data_length == 0 || offset.number % kDataAlignmentBytes == 0) continue;
      writer_defect("TZR-SEG-005", offset, {kIndexEntry.name, i}, Words{"a multiple of 8"});
    }
  }

  void check_end() const {
    const std::uint64_t end = *reading_->terminator_at + kTerminatorBytes;
    if (end >= file_.size()) return;
    notes_->writer_defect(
        {.rule = "TZR-IDX-016", .offset = end, .clause = Clause::kTrailing, .got = file_.size() - end});
  }

  // The terminator comes after the last data, and all bytes outside of fields are zeros.
  void check_headers_first_end() const {
    std::uint64_t first_data = file_.size();
    for (const Tensor& tensor : reading_->tensors) {
      if (tensor.data_length > 0) first_data = std::min(first_data, *tensor.data_offset);
    }
    std::uint64_t end = 0;
    reading_->visit_fields([&](const Field& field) {
      if (field.offset > end) check_gap(end, field.offset);
      end = std::max(end, field.offset + field.size);
    });
    check_gap(end, file_.size());
    if (file_.size() - end < kTerminatorBytes) {
      writer_defect("TZR-TRM-001", end, {}, "there is no terminator after the last data");
    }
    if (!reading_->layout->segments && first_data < file_.size() && first_data % kBlockBytes != 0) {
      writer_defect("TZR-IDX-017", first_data, {}, "the data should begin at a multiple of 4096");
    }
  }

  void check_gap(std::uint64_t begin, std::uint64_t end) const {
    if (all_zero(file_.subspan(begin, end - begin))) return;
    const bool last = end == file_.size();
    writer_defect(last ? "TZR-TRM-002" : "TZR-IDX-016", begin, {},
                  last ? "what follows the last data should be zeros" : "a gap should be zeros");
  }

  Bytes file_;
  const Reading* reading_;
  Notes* notes_;
};

}  // namespace

void check_writer_rules(Reading& reading) { WriterCheck(reading).run(); }

}  // namespace tzmark::conformance::model
