// batch_first with d a multiple of 16 (or 24), for 16-bit types, by clusters whose blocks exchange what they have: in
// one pass, for b of up to 128 or so; or in two, X transposed first, for b and c of 96 to 384.
#pragma once

#include "../configuration.h"

namespace ksmm::hopper {

Configurations exchange_configurations();

}  // namespace ksmm::hopper
