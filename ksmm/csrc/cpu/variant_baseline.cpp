// The kernel for the instructions that every machine of this kind has.
#define KSMM_VARIANT baseline
#include "kernel.h"
