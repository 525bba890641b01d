// Prints the names of the tensors in a file, one a line: what a first program with tzmark looks like.
#include <tzmark/error.h>
#include <tzmark/path.h>
#include <tzmark/reader.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FILE\n", argv[0]);
    return 2;
  }
  try {
    const tzmark::Reader reader = tzmark::Reader::open(argv[1]);
    const tzmark::TensorTable& tensors = reader.tensors();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      std::puts(tzmark::display_path(tensors[i].path()).c_str());
    }
  } catch (const tzmark::Error& error) {
    std::fprintf(stderr, "%s: %s\n", argv[1], error.what());
    return 1;
  }
  return 0;
}
