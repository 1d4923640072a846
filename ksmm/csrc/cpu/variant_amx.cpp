// The kernel by products of tiles, for x86-64 with AMX.
#if defined(__x86_64__)
#define KSMM_VARIANT amx
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "amx.h"
#include "amx_cost.h"

namespace ksmm {
namespace amx {

namespace {

// Compilers do not all know AMX by name.
bool processor_has_tiles() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return false;
  constexpr unsigned bfloat16 = 1u << 22, tile = 1u << 24;
  return (edx & bfloat16) && (edx & tile) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

// Linux lets a process use tiles once it has asked for them.
bool ask_for_tiles() {
#if defined(__linux__)
  constexpr long request = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, request, tile_data) == 0;
#else
  return false;
#endif
}

// Calls function(Element{}).
template <class Function>
bool with_element(Dtype dtype, const Function& function) {
  switch (dtype) {
    case Dtype::float32: return function(Float32{});
    case Dtype::float16: return function(Float16{});
    default: return function(BFloat16{});
  }
}

}  // namespace

bool is_there() {
  static const bool there = processor_has_tiles() && ask_for_tiles();
  return there;
}

bool pays(const Problem& problem) {
  return with_element(problem.dtype, [&](auto element) { return tiles_pay<decltype(element)>(problem); });
}

bool multiply(const Problem& problem, const Operands& operands, ParallelFor parallel_for) {
  return with_element(problem.dtype, [&](auto element) {
    return multiply_by_tiles<decltype(element)>(problem, operands, parallel_for);
  });
}

}  // namespace amx
}  // namespace ksmm
#endif
