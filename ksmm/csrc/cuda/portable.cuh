// The configurations that need no particular GPU: the strict kernel for float32, the matrix-unit kernel for the 16-bit
// types (the SIMT kernel where there are no matrix units). They take every problem and pick their own tiles.
#pragma once

#include "configuration.h"

namespace ksmm {

Configurations portable_configurations();

}  // namespace ksmm
