// batch_first with d > 1 in three passes: X transposed to where its products are ordinary matrices, those products, and
// Y transposed back. For large b and c, where one pass would read X and W too often from the L2 cache.
#pragma once

#include "../configuration.h"

namespace ksmm::hopper {

Configurations three_pass_configurations();       // one after another
Configurations overlapped_pass_configurations();  // of parts of the batch, beside each other

}  // namespace ksmm::hopper
