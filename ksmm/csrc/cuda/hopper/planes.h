// The family "planes": 16-bit types in batch_first with d > 1, on compute capability 9.0.
#pragma once

#include "../configuration.h"

namespace ksmm::hopper {

Configurations planes_configurations();

}  // namespace ksmm::hopper
