// What the variants of the kernel (the same code, compiled for several instruction sets) and their caller share.
#pragma once

#include "../ks_matmul.h"

namespace ksmm {

// 64-byte aligned memory for `floats` numbers; throws std::bad_alloc.
float* allocate(int64_t floats);
void release(float* memory) noexcept;

namespace baseline {
void multiply(const Problem& problem, const Operands& operands, ParallelFor parallel_for);
}
namespace avx2 {
void multiply(const Problem& problem, const Operands& operands, ParallelFor parallel_for);
}
namespace avx512 {
void multiply(const Problem& problem, const Operands& operands, ParallelFor parallel_for);
}
namespace avx512_bf16 {  // of bfloat16 alone
void multiply(const Problem& problem, const Operands& operands, ParallelFor parallel_for);
}
namespace amx {
// Whether this machine and its system have products of tiles.
bool is_there();
// Whether they are expected to be faster than the other variants.
bool pays(const Problem& problem);
// False where the result cannot be vouched for (numbers that are infinite, NaN, or nearly too small): another variant
// is to compute it.
bool multiply(const Problem& problem, const Operands& operands, ParallelFor parallel_for);
}  // namespace amx

}  // namespace ksmm
