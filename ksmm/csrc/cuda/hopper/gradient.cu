// Gradients of weights in batch_first, 16-bit types: one pass over X and ∂Y where their planes have a tile.
#include "../../ks_matmul.h"

#if defined(KSMM_SM90A)
#include "gradient_launch.cuh"
#endif

namespace ksmm {

#if defined(KSMM_SM90A)
namespace {

using namespace hopper;

// Calls run(tile) with the type of the tile for so many planes; run returns the same for each.
template <class Run>
auto with_gradient_tile(int64_t d, Run run) {
  switch (d) {
    case 2: return run(GradientTile<2, false>());
    case 4: return run(GradientTile<4, false>());
    case 8: return run(GradientTile<8, false>());
    case 16: return run(GradientTile<16, false>());
    default: return d % 32 == 0 ? run(GradientTile<32, true>()) : run(GradientTile<16, true>());
  }
}

}  // namespace

int64_t weight_gradient_first_parts(const WeightGradient& of, int64_t wanted) {
  Machine machine;
  if (current_machine(&machine) != cudaSuccess || of.batch == 0 || of.d == 1) return 0;
  return with_gradient_tile(of.d, [&](auto tile) { return gradient_parts<decltype(tile)>(of, machine, wanted); });
}

int weight_gradient_first_cuda(const WeightGradient& of, int64_t parts, void* gradient, const Workspace& workspace,
                               void* stream) {
  return with_gradient_tile(of.d, [&](auto tile) -> cudaError_t {
    using Tile = decltype(tile);
    const auto on = static_cast<cudaStream_t>(stream);
    return of.dtype == Dtype::float16 ? launch_gradient<float16, Tile>(of, parts, gradient, workspace, on)
                                      : launch_gradient<bfloat16, Tile>(of, parts, gradient, workspace, on);
  });
}

#else

int64_t weight_gradient_first_parts(const WeightGradient&, int64_t) { return 0; }
int weight_gradient_first_cuda(const WeightGradient&, int64_t, void*, const Workspace&, void*) {
  return cudaErrorNotSupported;
}

#endif

}  // namespace ksmm
