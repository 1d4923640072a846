// The kernel for x86-64 with AVX2, FMA and F16C.
#if defined(__x86_64__)
#define KSMM_VARIANT avx2
#include "kernel.h"
#endif
