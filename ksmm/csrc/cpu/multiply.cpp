// multiply_cpu: chooses the variant of the kernel for the instruction set of this machine.
//
// Each variant_*.cpp is the whole kernel, compiled with other flags (ksmm/toolchain.py); on machines other than x86-64
// the baseline is all there is. The environment variable KSMM_CPU_VARIANT (baseline, avx2, avx512, avx512_bf16) asks
// for one of them, for tests and for measuring what the wider vectors bring.
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <array>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>

#include "variants.h"

namespace ksmm {

namespace {

constexpr std::align_val_t cache_line{64};

using Multiply = void (*)(const Problem&, const Operands&, ParallelFor);

struct Variant {
  const char* name;
  Multiply multiply;  // null: this machine cannot run it
  bool bfloat16_alone = false;
};

// The fastest first.
std::array<Variant, 4> variants() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool has_avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  const bool has_pairs = has_avx512 && __builtin_cpu_supports("avx512bf16");
  const Multiply for_avx2 = has_avx2 ? avx2::multiply : nullptr;
  const Multiply for_avx512 = has_avx512 ? avx512::multiply : nullptr;
  const Multiply for_pairs = has_pairs ? avx512_bf16::multiply : nullptr;
#else
  const Multiply for_avx2 = nullptr, for_avx512 = nullptr, for_pairs = nullptr;
#endif
  return {
      {{"avx512_bf16", for_pairs, true}, {"avx512", for_avx512}, {"avx2", for_avx2}, {"baseline", baseline::multiply}}};
}

// Of the variant that was asked for, or else of the fastest that this machine runs. The one for bfloat16 alone leaves
// the other dtypes to the next.
Multiply choose(bool bfloat16) {
  const char* variable = std::getenv("KSMM_CPU_VARIANT");
  const std::string wanted = variable ? variable : "";
  bool reached = wanted.empty();
  for (const Variant& variant : variants()) {
    if (wanted == variant.name) {
      if (!variant.multiply)
        throw std::invalid_argument("KSMM_CPU_VARIANT is '" + wanted + "', which this machine cannot run; unset it");
      reached = true;
    }
    if (reached && variant.multiply && (bfloat16 || !variant.bfloat16_alone)) return variant.multiply;
  }
  throw std::invalid_argument("KSMM_CPU_VARIANT is '" + wanted +
                              "'; choose one of baseline, avx2, avx512, avx512_bf16, or unset it");
}

// Memory from here on is not reused by the C library but comes fresh from the system, which maps each page when it is
// first written: by pages of 4 KiB that costs as much time as writing them.
constexpr int64_t fresh_bytes = 32 << 20;

// Asks for large pages where a tensor is going to be; the system need not listen, and what is there is kept.
void ask_for_large_pages(void* memory, int64_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  if (bytes < fresh_bytes) return;
  constexpr uintptr_t page = 2 << 20;
  const uintptr_t start = (reinterpret_cast<uintptr_t>(memory) + page - 1) / page * page;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(memory) + static_cast<uintptr_t>(bytes)) / page * page;
  if (start < end) madvise(reinterpret_cast<void*>(start), end - start, MADV_HUGEPAGE);
#else
  static_cast<void>(memory), static_cast<void>(bytes);
#endif
}

int64_t bytes_of_y(const Problem& problem) {
  return problem.a * problem.b * problem.d * problem.batch * (problem.dtype == Dtype::float32 ? 4 : 2);
}

}  // namespace

float* allocate(int64_t floats) {
  const size_t bytes = static_cast<size_t>(floats) * sizeof(float);
  void* const memory = ::operator new(bytes, cache_line);
  ask_for_large_pages(memory, static_cast<int64_t>(bytes));
  return static_cast<float*>(memory);
}

void release(float* memory) noexcept { ::operator delete(memory, cache_line); }

void multiply_cpu(const Problem& problem, const Operands& operands, ParallelFor parallel_for) {
  static const Multiply multiply = choose(false), multiply_bfloat16 = choose(true);
  if (problem.batch == 0) return;
  ask_for_large_pages(operands.y, bytes_of_y(problem));
  (problem.dtype == Dtype::bfloat16 ? multiply_bfloat16 : multiply)(problem, operands, parallel_for);
}

}  // namespace ksmm
