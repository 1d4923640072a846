// Float32 on the matrix units of compute capability 9.0, compensated or in TF32. Host code.
#pragma once

#include "../configuration.h"

namespace ksmm {

Configurations tf32_configurations();

namespace hopper {
// Its parts, which are compiled apart because that takes long.
Configurations tf32_batch_last();
Configurations tf32_batch_first_runs();
Configurations tf32_batch_first_sectors();
Configurations halves_batch_last();
Configurations halves_batch_first();
Configurations tf32_shifted();
Configurations halves_shifted();
}  // namespace hopper

}  // namespace ksmm
