// Small products by float32 multiply-adds alone, in tiles that are small, too.
#pragma once

#include "configuration.h"

namespace ksmm {

Configurations small_strict_configurations();

}  // namespace ksmm
