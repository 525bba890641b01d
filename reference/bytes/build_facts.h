// How this build was made, as CMake fills it in.
#pragma once

namespace tzmark {

// "CUDA: kernels for sm_90; MPI: no"
const char* optional_parts();
// Compiler, build type and libraries, with their versions.
const char* built_with();

}  // namespace tzmark
