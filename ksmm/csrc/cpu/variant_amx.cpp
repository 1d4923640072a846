// The kernel by products of tiles, for x86-64 with AMX.
#if defined(__x86_64__)
#define KSMM_VARIANT amx
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "amx.h"
#include "amx_cost.h"

namespace ksmm {
namespace amx {

namespace {

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
  static const bool there = __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16") && ask_for_tiles();
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
