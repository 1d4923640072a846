// The kernel for x86-64 with AVX512 (F, BW, DQ, VL).
#if defined(__x86_64__)
#define KSMM_VARIANT avx512
#include "kernel.h"
#endif
