// multiply_cpu: chooses the variant of the kernel for the instruction set of this machine.
//
// Each variant_*.cpp is the whole kernel, compiled with other flags (ksmm/toolchain.py); on machines other than x86-64
// the baseline is all there is. The environment variable KSMM_CPU_VARIANT (baseline, avx2, avx512, avx512_bf16, amx)
// asks for one of them, for tests and for measuring what the wider vectors bring.
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <array>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "variants.h"

namespace ksmm {

namespace {

constexpr std::align_val_t cache_line{64};
constexpr const char* tiles_name = "amx";

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

// What KSMM_CPU_VARIANT asks for, or nothing.
std::string wanted_variant() {
  const char* variable = std::getenv("KSMM_CPU_VARIANT");
  return variable ? variable : "";
}

void require(bool there) {
  if (!there)
    throw std::invalid_argument("KSMM_CPU_VARIANT is '" + wanted_variant() +
                                "', which this machine cannot run; unset it");
}

bool tiles_are_there() {
#if defined(__x86_64__)
  const std::string wanted = wanted_variant();
  if (!wanted.empty() && wanted != tiles_name) return false;
  if (!wanted.empty()) require(amx::is_there());
  return amx::is_there();
#else
  require(wanted_variant() != tiles_name);
  return false;
#endif
}

// Of the variant that was asked for, or else of the fastest that this machine runs. The one for bfloat16 alone leaves
// the other dtypes to the next, and that by tiles leaves them what it does not take.
Multiply choose(bool bfloat16) {
  const std::string wanted = wanted_variant();
  bool reached = wanted.empty() || wanted == tiles_name;
  for (const Variant& variant : variants()) {
    if (wanted == variant.name) {
      require(variant.multiply);
      reached = true;
    }
    if (reached && variant.multiply && (bfloat16 || !variant.bfloat16_alone)) return variant.multiply;
  }
  throw std::invalid_argument("KSMM_CPU_VARIANT is '" + wanted +
                              "'; choose one of baseline, avx2, avx512, avx512_bf16, amx, or unset it");
}

// True if the product was computed by tiles: always where they were asked for by name.
bool multiply_by_tiles(const Problem& problem, const Operands& operands, ParallelFor parallel_for) {
#if defined(__x86_64__)
  static const bool there = tiles_are_there(), always = wanted_variant() == tiles_name;
  if (!there || (problem.dtype == Dtype::float32 && problem.precision == Precision::strict)) return false;
  return (always || amx::pays(problem)) && amx::multiply(problem, operands, parallel_for);
#else
  static_cast<void>(problem), static_cast<void>(operands), static_cast<void>(parallel_for);
  return false;
#endif
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
  return problem.a * problem.b * problem.d * problem.batch * size_of(problem.dtype);
}

// A block of memory begins with its size.
struct alignas(64) Header {
  size_t bytes;
};

void* allocate_block(size_t bytes) {
  void* const block = ::operator new(bytes, cache_line);
  static_cast<Header*>(block)->bytes = bytes;
  ask_for_large_pages(block, static_cast<int64_t>(bytes));
  return block;
}
void release_block(void* block) noexcept { ::operator delete(block, cache_line); }

// The last blocks that a thread has released, for its next calls. The C library gives such blocks back to the system,
// which maps each page anew: for a megabyte, more than a tenth of a millisecond.
class Kept {
 public:
  ~Kept() {
    for (void* block : blocks_) release_block(block);
  }

  // Null where none has as many bytes, but not many times as many.
  void* take(size_t bytes) {
    for (void*& block : blocks_) {
      if (!block) continue;
      const size_t there = static_cast<Header*>(block)->bytes;
      if (bytes <= there && there <= 4 * bytes) return std::exchange(block, nullptr);
    }
    return nullptr;
  }
  void keep(void* block) noexcept {
    if (static_cast<Header*>(block)->bytes > most_bytes) return release_block(block);
    next_ = (next_ + 1) % blocks_.size();
    release_block(std::exchange(blocks_[next_], block));
  }

 private:
  static constexpr size_t most_bytes = 4 << 20;
  std::array<void*, 8> blocks_{};  // a call has up to five at a time
  size_t next_ = 0;
};

thread_local Kept kept;

}  // namespace

float* allocate(int64_t floats) {
  const size_t bytes = static_cast<size_t>(floats) * sizeof(float) + sizeof(Header);
  void* block = kept.take(bytes);
  if (!block) block = allocate_block(bytes);
  return reinterpret_cast<float*>(static_cast<Header*>(block) + 1);
}

void release(float* memory) noexcept { kept.keep(reinterpret_cast<Header*>(memory) - 1); }

bool multiplies_by_tiles() { return tiles_are_there(); }

void multiply_cpu(const Problem& problem, const Operands& operands, ParallelFor parallel_for) {
  static const Multiply multiply = choose(false), multiply_bfloat16 = choose(true);
  if (problem.batch == 0) return;
  ask_for_large_pages(operands.y, bytes_of_y(problem));
  if (multiply_by_tiles(problem, operands, parallel_for)) return;
  (problem.dtype == Dtype::bfloat16 ? multiply_bfloat16 : multiply)(problem, operands, parallel_for);
}

}  // namespace ksmm
