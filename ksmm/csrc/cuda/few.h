// Products of a handful of rows, such as the tokens that a language model decodes.
#pragma once

#include "configuration.h"

namespace ksmm {

Configurations few_configurations();

}  // namespace ksmm
