// What is left of safetensors files if the power goes while they are written.
#include <gtest/gtest.h>
