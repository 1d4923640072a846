// Products in batch_last whose rows are no multiple of 16 bytes, by way of copies whose rows are.
#pragma once

#include "configuration.h"

namespace ksmm {

Configurations padded_configurations();

}  // namespace ksmm
