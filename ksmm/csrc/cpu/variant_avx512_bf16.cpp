// The kernel in bfloat16 for x86-64 with AVX512 and its products of bfloat16 pairs.
#if defined(__x86_64__)
#define KSMM_VARIANT avx512_bf16
#include "kernel.h"
#endif
