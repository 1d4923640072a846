// multiply_cpu: chooses the variant of the kernel for the instruction set of this machine.
//
// Each variant_*.cpp is the whole kernel, compiled with other flags (ksmm/toolchain.py); on machines other than x86-64
// the baseline is all there is. The environment variable KSMM_CPU_VARIANT (baseline, avx2, avx512) asks for a lower
// one, for tests and for measuring what the wider vectors bring.
#include <cstdlib>
#include <cstring>
#include <new>

#include "variants.h"

namespace ksmm {

namespace {

constexpr std::align_val_t cache_line{64};

using Multiply = void (*)(const Problem&, const Operands&, ParallelFor);

#if defined(__x86_64__)
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

Multiply choose() {
  const char* wanted = std::getenv("KSMM_CPU_VARIANT");
  const auto allowed = [wanted](const char* name) { return !wanted || !*wanted || std::strcmp(wanted, name) == 0; };
  __builtin_cpu_init();
  if (allowed("avx512") && has_avx512()) return avx512::multiply;
  if (allowed("avx2") && has_avx2()) return avx2::multiply;
  return baseline::multiply;
}
#else
Multiply choose() { return baseline::multiply; }
#endif

}  // namespace

float* allocate(int64_t floats) {
  return static_cast<float*>(::operator new(static_cast<size_t>(floats) * sizeof(float), cache_line));
}

void release(float* memory) noexcept { ::operator delete(memory, cache_line); }

void multiply_cpu(const Problem& problem, const Operands& operands, ParallelFor parallel_for) {
  static const Multiply multiply = choose();
  if (problem.batch > 0) multiply(problem, operands, parallel_for);
}

}  // namespace ksmm
