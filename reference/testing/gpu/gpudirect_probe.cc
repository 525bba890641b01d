// For tests: prints why the path gpudirect is unavailable in a process that has loaded nothing before, or nothing.
#include <cstdio>

#include "tzmark/io.h"

int main() {
  for (const tzmark::IoPath& path : tzmark::io_paths()) {
    if (path.name == "gpudirect") std::puts(path.why_unavailable().c_str());
  }
}
