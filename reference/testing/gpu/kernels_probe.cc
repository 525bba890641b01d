// For tests: prints why kernels cannot be used in a process that has loaded nothing before, or an empty line.
#include <cstdio>

#include "tzmark/device_compute.h"

int main() { std::puts(tzmark::why_no_device_compute().c_str()); }
