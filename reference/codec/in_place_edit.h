// One change of a v5-segments file: locked, recovered, read, given room, and then overwritten under an undo journal.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "codec/index.h"
#include "codec/undo_journal.h"
#include "os/in_place_file.h"
#include "tzmark/edit.h"
#include "tzmark/io.h"

namespace tzmark {

class InPlaceEdit {
 public:
  enum class Segment { kMetadata, kHeaders };

  InPlaceEdit(const std::string& file_name, std::string io_path, Durability durability);
  // Undoes a change that was begun and not committed. If that fails too, the journal stays for the next one.
  ~InPlaceEdit();
  InPlaceEdit(const InPlaceEdit&) = delete;
  InPlaceEdit& operator=(const InPlaceEdit&) = delete;

  // What the file has now; changes when a segment grows.
  const Index& index() const { return index_; }
  File& file() { return *file_; }
  // The file once more, for a Reader: the one that is locked, whatever has its name by now.
  std::unique_ptr<File> open_for_reading() const { return locked_.open(io_path_, OpenMode::kRead); }
  std::uint64_t entries_end() const { return index_.begin + index_.length; }
  std::uint64_t headers_end() const { return headers_end_; }  // of the last header that is there

  // Grows a segment until its content may end at the given position of the file as it is now.
  void make_room(Segment segment, std::uint64_t content_end);
  const Growth& growth() const { return growth_; }

  // From here on the ranges may be overwritten, and the file extended to a size.
  void begin(std::vector<ByteRange> ranges, std::uint64_t file_bytes_max);
  // The head of the file: how many tensors, and how long the index is.
  void write_head(std::uint64_t tensor_count, std::uint64_t total_data_bytes, std::uint64_t index_length);
  // The change is whole: makes it durable and forgets how to undo it. Throws TZE-ENV-008 if another file has taken the
  // name meanwhile, so that the change is lost.
  void commit();

 private:
  void read();
  void insert(std::uint64_t at, std::uint64_t bytes, const Segments& after);
  void note(bool is_durable) { growth_.names_durable = growth_.names_durable && is_durable; }
  void copy(std::uint64_t at, std::uint64_t bytes, const Segments& after);

  const std::string io_path_;
  InPlaceFile locked_;
  std::unique_ptr<File> file_;
  Index index_;
  std::uint64_t headers_end_ = 0;
  Growth growth_;
  bool begun_ = false;
};

}  // namespace tzmark
