// Readers with one mistake each; see wrong_readers.h.
#include "mutation/wrong_readers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <stdexcept>
#include <utility>

#include "model/text.h"
#include "planted_bugs/widths.h"

namespace tzmark::conformance::mutation {
namespace {

using model::Defect;
using model::Description;
using model::Field;
using model::Json;

using Answer = std::function<Said(const AskedFile&)>;
// Whether the reader does not notice the defect.
using Misses = std::function<bool(const Defect&, const AskedFile&)>;
// Whether the reader refuses a valid tensor.
using Refuses = std::function<bool(const Json& tensor)>;
using Lists = std::function<void(Json& tensor)>;

// Widths.

bool ignore_nothing(const Defect&, std::string_view) { return false; }

// What a reader that keeps a number in this type takes it for.
std::uint64_t (*kept_in(const std::string& type))(std::uint64_t) {
  const planted::IntegerField widest{.structure = "", .field = "", .size = 8};
  for (const planted::Width& width : planted::widths_of(widest)) {
    if (width.name == type) return width.take;
  }
  throw std::logic_error("no narrow type " + type);
}

Answer narrow(const std::string& structure, const std::string& name, const std::string& type) {
  return [structure, name, kept = kept_in(type)](const AskedFile& file) {
    bool differs = false;
    const auto misread = [&](const model::NumberField& field, std::uint64_t number) {
      const std::uint64_t taken = kept(number);
      if (taken == number || field.field != name || field.structure.kind() != structure) return number;
      differs = true;
      return taken;
    };
    const Description description =
        model::describe(file.bytes, file.secret, model::Mistakes{.ignores = ignore_nothing, .misreads = misread});
    return said_of(differs ? description : file.right);
  };
}

// Places and clauses.

Answer missing(Misses misses) {
  return [misses = std::move(misses)](const AskedFile& file) {
    const bool any = std::ranges::any_of(file.right.defects, [&](const Defect& d) { return misses(d, file); });
    if (!any) return said_of(file.right);
    return said_of(model::describe(file.bytes, file.secret,
                                   [&](const Defect& defect, std::string_view) { return misses(defect, file); }));
  };
}

std::size_t tensor_of(const Defect& defect) { return defect.structure.tensor.value_or(0); }

std::uint64_t tensors_of(const AskedFile& file) {
  return file.bytes.size() < 65 ? 0 : model::little_endian(file.bytes.subspan(57, 8));
}

bool is_hash_rule(const Defect& defect) { return defect.rule == "TZR-HSH-005" || defect.rule == "TZR-HSH-006"; }

// The bytes of the dimensions of a structure.
std::string dims_of(const AskedFile& file, const std::string& structure) {
  for (const Field& field : file.right.fields) {
    if (field.structure == structure && field.name == "dim") {
      return std::string(model::text_of(file.bytes.subspan(field.offset, field.size)));
    }
  }
  return "";
}

bool have_same_product(const Defect& defect, const AskedFile& file) {
  if (defect.rule != "TZR-REC-009") return false;
  const std::string number = std::to_string(tensor_of(defect));
  std::string here = dims_of(file, "tensor header " + number);
  std::string there = dims_of(file, "index entry " + number);
  std::ranges::sort(here);
  std::ranges::sort(there);
  return here == there;
}

// What is valid and unusual.

Answer refusing(Refuses refuses) {
  return [refuses = std::move(refuses)](const AskedFile& file) {
    Said said = said_of(file.right);
    if (said.decodes && std::ranges::any_of(said.document["tensors"], refuses)) return Said{};
    return said;
  };
}

Answer refusing_files(std::function<bool(const AskedFile&)> refuses) {
  return [refuses = std::move(refuses)](const AskedFile& file) { return refuses(file) ? Said{} : said_of(file.right); };
}

Answer listing(Lists lists) {
  return [lists = std::move(lists)](const AskedFile& file) {
    Said said = said_of(file.right);
    if (!said.decodes) return said;
    for (Json& tensor : said.document["tensors"]) lists(tensor);
    return said;
  };
}

std::size_t longest_text(const Json& tensor) {
  std::size_t longest = 0;
  for (const Json& part : tensor["path"]) {
    if (part.is_string()) longest = std::max(longest, part.get_ref<const std::string&>().size());
  }
  return longest;
}

bool has_text(const Json& tensor, std::string_view text) {
  return std::ranges::any_of(tensor["path"], [&](const Json& part) {
    return part.is_string() && part.get_ref<const std::string&>().find(text) != std::string::npos;
  });
}

std::string wire(const Json& tensor) { return tensor["wire_dtype"].get<std::string>(); }
std::uint64_t length(const Json& tensor) { return tensor["data_length"].get<std::uint64_t>(); }

std::size_t fields_named(const AskedFile& file, std::string_view name) {
  return std::ranges::count(file.right.fields, name, &Field::name);
}

bool any_field(const AskedFile& file, std::string_view name, const std::function<bool(std::uint64_t)>& test) {
  return std::ranges::any_of(file.right.fields, [&](const Field& field) {
    return field.name == name && field.size <= 8 &&
           test(model::little_endian(file.bytes.subspan(field.offset, field.size)));
  });
}

// Buffers.

// Does not see the last bytes of data that does not fill the buffer.
Answer losing_tails(std::uint64_t buffer_bytes, std::uint64_t tail_bytes, bool encrypted) {
  return [=](const AskedFile& file) {
    Said said = said_of(file.right);
    if (!said.decodes || said.document["encrypted"] != encrypted) return said;
    for (Json& tensor : said.document["tensors"]) {
      const std::uint64_t bytes = length(tensor);
      const std::uint64_t tail = bytes % buffer_bytes;
      if (bytes > buffer_bytes && tail > 0 && tail <= tail_bytes && !tensor["sha256"].is_null()) {
        tensor["sha256"] = "of fewer bytes";
      }
    }
    return said;
  };
}

// Names each tensor's data by a key, and gives those with a known key the data that was there first.
void take_known(Json& tensors, const std::function<std::string(const Json&)>& key, std::map<std::string, Json>& known) {
  for (Json& tensor : tensors) {
    if (tensor["sha256"].is_null()) continue;
    tensor["sha256"] = known.emplace(key(tensor), tensor["sha256"]).first->second;
  }
}

Answer taking_known_in_a_file(std::function<std::string(const Json&)> key) {
  return [key = std::move(key)](const AskedFile& file) {
    Said said = said_of(file.right);
    std::map<std::string, Json> known;
    if (said.decodes) take_known(said.document["tensors"], key, known);
    return said;
  };
}

Answer keeping_keys_under(model::KeyDerivation (*kept)(model::KeyDerivation)) {
  return [kept](const AskedFile& file) {
    if (!file.secret.passphrase) return said_of(file.right);
    return said_of(
        model::describe(file.bytes, file.secret, model::Mistakes{.ignores = ignore_nothing, .keeps_key_under = kept}));
  };
}

// Its list of tensors survives a question that it rejected.
Answer keeping_rejected_tensors() {
  const auto kept = std::make_shared<std::uint64_t>(0);
  return [kept](const AskedFile& file) {
    Said said = said_of(file.right);
    if (!said.decodes) {
      const bool has_entries = std::ranges::any_of(file.right.fields, [](const Field& field) {
        return field.structure == "index entry 0" && field.name == "data_length";
      });
      *kept = has_entries ? 1 : *kept;
      return said;
    }
    if (std::exchange(*kept, 0) > 0) said.document["tensors"].push_back(said.document["tensors"].at(0));
    return said;
  };
}

// It keeps what it found under a name of the file that does not tell all of its content.
Answer keeping_files(std::function<std::string(const AskedFile&)> key) {
  const auto known = std::make_shared<std::map<std::string, Said>>();
  return [known, key = std::move(key)](const AskedFile& file) {
    return known->emplace(key(file), said_of(file.right)).first->second;
  };
}

std::string beginning(const AskedFile& file, std::size_t bytes) {
  return std::string(model::text_of(file.bytes.first(std::min(bytes, file.bytes.size()))));
}

void add_widths(std::vector<WrongReader>& all) {
  struct Narrow {
    std::string structure;
    std::string name;
    std::string type;
    std::string out_of_reach = {};
  };
  const std::vector<Narrow> narrow_fields = {
      {"tensor header", "chunk_count", "u8"},
      {"index entry", "dtype_length", "i8"},
      {"index", "index_length", "u32"},
      {"tensor header, crypt chunk", "memlimit", "u32"},
      {"tensor header, crypt chunk", "opslimit", "u16"},
      {"file header", "tensor count", "u8"},
      {"file header", "tensor count", "u16"},
      {"index entry", "name_length", "i8"},
      {"index entry", "name_length", "i16"},
      {"index entry", "ndim", "i8", "a reader may refuse 128 dimensions: the open choice many-dimensions"},
      {"index entry", "dim", "u16"},
      {"index entry", "dim", "i32"},
      {"index entry", "dim", "double"},
      {"tensor header", "module_index", "i16"},
      {"tensor header", "hash_count", "i8"},
      {"tensor header", "hashes_length", "u8"},
      {"tensor header", "crypt_length", "u16"},
      {"tensor header", "header_length", "u16"},
      {"tensor header", "data_length", "u32"},
      {"index entry", "data_length", "i32"},
      {"index entry", "data_offset", "u16"},
      {"index entry", "header_offset", "u32"},
      {"tensor header, crypt chunk", "chunk_size", "u32"},
      {"tensor header, crypt chunk", "mac_count", "u8"},
      {"tensor header, crypt chunk", "mac_count", "u16"},
      {"tensor header, crypt chunk", "chunk_length", "i16"},
      {"tensor header, crypt chunk", "salt_length", "u8"},
      {"tensor header, crypt chunk", "alg", "u8"},
      {"layout section", "data_start", "u32"},
      {"layout section", "layout_length", "u8"},
      {"terminator", "terminator", "u32",
       "readers need not look at the terminator: the open choice terminator; a few files are told apart by it"},
      {"index entry", "entry_version", "u8"},
      {"file header", "data version", "u16"},
  };
  for (const auto& [structure, name, type, out_of_reach] : narrow_fields) {
    all.push_back({fmt::format("{} of {} in {}", name, structure, type), "width",
                   fmt::format("It keeps {} in {}.", name, type), narrow(structure, name, type), out_of_reach});
  }
}

void add_places(std::vector<WrongReader>& all) {
  const auto add = [&](std::string name, std::string mistake, Misses misses) {
    all.push_back({std::move(name), "place", std::move(mistake), missing(std::move(misses))});
  };
  add("hashes of the third tensor", "It does not check the hashes of the third tensor and those after it.",
      [](const Defect& d, const AskedFile&) { return is_hash_rule(d) && tensor_of(d) >= 2; });
  add("hashes in the middle", "It checks the hashes of the first and of the last tensor alone.",
      [](const Defect& d, const AskedFile& file) {
        return is_hash_rule(d) && tensor_of(d) > 0 && tensor_of(d) + 1 < tensors_of(file);
      });
  add("hashes of a single tensor", "It does not check the hashes where there is one tensor.",
      [](const Defect& d, const AskedFile& file) { return is_hash_rule(d) && tensors_of(file) == 1; });
  add("names of the third tensor", "It does not compare the names of index and header from the third tensor on.",
      [](const Defect& d, const AskedFile&) { return d.rule == "TZR-REC-006" && tensor_of(d) >= 2; });
  add("MACs of the last tensor", "It does not check the MACs of the last of several tensors.",
      [](const Defect& d, const AskedFile& file) {
        return d.rule == "TZR-CRY-016" && tensors_of(file) > 1 && tensor_of(d) + 1 == tensors_of(file);
      });
  add("dimensions in another order", "It compares the dimensions of index and header as a set.", have_same_product);
  add("rest of the index", "It checks the first 512 bytes of the rest of the index.",
      [](const Defect& d, const AskedFile& file) {
        if (d.rule != "TZR-IDX-003" || !d.offset) return false;
        for (const Field& field : file.right.fields) {
          if (field.structure == "index" && field.name == "room") return *d.offset >= field.offset + 512;
        }
        return false;
      });
  add("overlap of data", "It compares the place of each tensor's data with that of the tensor before it in the index.",
      [](const Defect& d, const AskedFile&) {
        return d.rule == "TZR-IDX-011" && d.field == "data_offset" && tensor_of(d) != 1;
      });
}

void add_state(std::vector<WrongReader>& all) {
  const auto add = [&](std::string name, std::string mistake, Answer answer) {
    all.push_back({std::move(name), "state", std::move(mistake), std::move(answer)});
  };
  add("keys by salt", "It keeps a derived key under its salt alone.",
      keeping_keys_under(
          [](model::KeyDerivation derivation) { return model::KeyDerivation{.salt = derivation.salt}; }));
  add("one key for a file", "It derives one key for all tensors.",
      keeping_keys_under([](model::KeyDerivation) { return model::KeyDerivation{}; }));
  add("data by CRC32", "It takes tensors of one CRC32 for the same data.",
      taking_known_in_a_file([](const Json& tensor) {
        return tensor["crc32_field"].is_null() ? tensor["path"].dump() : tensor["crc32_field"].get<std::string>();
      }));
  add("data by shape", "It takes tensors of one name's beginning, type and shape for the same data.",
      taking_known_in_a_file([](const Json& tensor) {
        return tensor["path"].dump().substr(0, 5) + tensor["wire_dtype"].dump() + tensor["shape"].dump();
      }));
  add("list of a rejected file", "Its list of tensors survives a question that it rejected.",
      keeping_rejected_tensors());
  add("file by its beginning", "It knows a file by its first 4096 bytes and its size.",
      keeping_files([](const AskedFile& file) { return beginning(file, 4096) + std::to_string(file.bytes.size()); }));
  add("file without its key", "It knows a file by its content, whatever the key.",
      keeping_files([](const AskedFile& file) { return std::string(model::text_of(file.bytes)); }));
}

void add_unusual(std::vector<WrongReader>& all) {
  const auto add = [&](std::string name, std::string mistake, Answer answer) {
    all.push_back({std::move(name), "unusual", std::move(mistake), std::move(answer)});
  };
  add("dates without a unit", "It refuses <M8 and <m8 without a unit.", refusing([](const Json& tensor) {
        return wire(tensor).size() == 3 && (wire(tensor)[1] == 'M' || wire(tensor)[1] == 'm');
      }));
  add("dates in attoseconds", "It knows the units of dates down to fs.",
      refusing([](const Json& tensor) { return wire(tensor).ends_with("as]"); }));
  add("dates in weeks", "It does not know the unit W.",
      refusing([](const Json& tensor) { return wire(tensor).ends_with("W]"); }));
  add("float8_e8m0fnu", "It does not know torch.float8_e8m0fnu.",
      refusing([](const Json& tensor) { return wire(tensor).ends_with("float8_e8m0fnu"); }));
  add("complex32", "It does not know torch.complex32.",
      refusing([](const Json& tensor) { return wire(tensor).ends_with("complex32"); }));
  add("big-endian complex128", "It does not know >c16.",
      refusing([](const Json& tensor) { return wire(tensor) == ">c16"; }));
  add("replacement character", "It takes U+FFFD in a name for a fault in it.",
      refusing([](const Json& tensor) { return has_text(tensor, "\xef\xbf\xbd"); }));
  add("characters of four bytes", "It replaces characters beyond U+FFFF.", listing([](Json& tensor) {
        for (Json& part : tensor["path"]) {
          if (part.is_string() && part.get_ref<const std::string&>().find('\xf0') != std::string::npos) part = "?";
        }
      }));
  add("several SHA-256", "It refuses a header with more than four hashes.", refusing_files([](const AskedFile& file) {
        return any_field(file, "hash_count", [](std::uint64_t count) { return count > 4; });
      }));
  add("parameters along with a key", "It checks the parameters of a derivation also where a raw key is given.",
      refusing_files([](const AskedFile& file) {
        return file.secret.key && any_field(file, "opslimit", [](std::uint64_t number) { return number > 4; });
      }));
  add("line end of a passphrase", "It leaves the line end of a passphrase out.", [](const AskedFile& file) {
    model::Secret secret = file.secret;
    if (!secret.passphrase || !secret.passphrase->ends_with('\n')) return said_of(file.right);
    secret.passphrase->pop_back();
    return said_of(model::describe(file.bytes, secret));
  });
}

void add_limits(std::vector<WrongReader>& all) {
  const auto add = [&](std::string name, std::string mistake, Answer answer, std::string kind = "limit") {
    all.push_back({std::move(name), std::move(kind), std::move(mistake), std::move(answer)});
  };
  add("names of 255 bytes", "It refuses names of more than 255 bytes.",
      refusing([](const Json& tensor) { return longest_text(tensor) > 255; }));
  add("names of 32,767 bytes", "It refuses names of more than 32,767 bytes.",
      refusing([](const Json& tensor) { return longest_text(tensor) > 32767; }));
  add("names of 65,535 bytes", "It refuses names of 65,535 bytes.",
      refusing([](const Json& tensor) { return longest_text(tensor) == 65535; }));
  add("16 tensors", "It refuses more than 16 tensors.",
      refusing_files([](const AskedFile& file) { return tensors_of(file) > 16; }));
  add("256 tensors", "It refuses more than 256 tensors.",
      refusing_files([](const AskedFile& file) { return tensors_of(file) > 256; }));
  add("8 dimensions", "It refuses more than 8 dimensions.",
      refusing([](const Json& tensor) { return tensor["shape"].size() > 8; }));
  add("256 messages", "It refuses data of more than 256 encrypted messages.",
      refusing_files([](const AskedFile& file) { return fields_named(file, "mac") > 256; }));
  add("positions of 31 bits", "It refuses positions in lists from 2^31 on.", refusing([](const Json& tensor) {
        return std::ranges::any_of(tensor["path"], [](const Json& part) {
          return part.is_number() && part.get<std::uint64_t>() >= std::uint64_t{1} << 31;
        });
      }));
  add("chunks of 64 KiB", "It refuses a chunk_size above 64 KiB.", refusing_files([](const AskedFile& file) {
        return any_field(file, "chunk_size", [](std::uint64_t size) { return size > 65536; });
      }));
  add("buffers of 4 KiB", "It loses up to 7 bytes that follow a multiple of 4 KiB of data.",
      losing_tails(4096, 7, false), "buffer");
  add("buffers of 64 KiB", "It loses up to 7 bytes that follow a multiple of 64 KiB of data.",
      losing_tails(65536, 7, false), "buffer");
  add("buffers of 1 MiB", "It loses up to 7 bytes that follow a multiple of 1 MiB of data.",
      losing_tails(1 << 20, 7, false), "buffer");
  add("last message of one byte", "It loses a last encrypted message of one byte.", losing_tails(1024, 1, true),
      "buffer");
  add("buffers of 64 KiB, encrypted", "It loses up to 7 bytes that follow a multiple of 64 KiB of encrypted data.",
      losing_tails(65536, 7, true), "buffer");
}

}  // namespace

Said said_of(const Description& description) {
  Said said;
  said.decodes = std::ranges::none_of(description.defects, model::refuses_decode);
  said.verifies = std::ranges::none_of(description.defects, model::refuses_verify);
  if (said.decodes) said.document = description.document;
  return said;
}

std::vector<WrongReader> wrong_readers() {
  std::vector<WrongReader> all;
  add_widths(all);
  add_places(all);
  add_state(all);
  add_unusual(all);
  add_limits(all);
  return all;
}

}  // namespace tzmark::conformance::mutation
