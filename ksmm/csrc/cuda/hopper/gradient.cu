// Gradients of weights in batch_first, 16-bit types: one pass over X and ∂Y where their planes have a tile.
#include "../../ks_matmul.h"

#if defined(KSMM_SM90A)
#include "gradient_launch.cuh"
#endif

namespace ksmm {

#if defined(KSMM_SM90A)
namespace {

using namespace hopper;

// Calls run(tile) with the type of the tile for so many planes, in clusters of so many blocks; run returns the same for
// each.
template <int J, class Run>
auto with_cluster(int64_t cluster, Run run) {
  switch (cluster) {
    case 1: return run(GradientTile<J, false>());
    case 2: return run(GradientTile<J, false, 1, 2>());
    default: return run(GradientTile<J, false, 2, 2>());
  }
}
template <class Run>
auto with_gradient_tile(int64_t d, int64_t cluster, Run run) {
  switch (d) {
    case 2: return with_cluster<2>(cluster, run);
    case 4: return with_cluster<4>(cluster, run);
    case 8: return with_cluster<8>(cluster, run);
    case 16: return with_cluster<16>(cluster, run);
    default: return run(GradientTile<16, true>());
  }
}

}  // namespace

GradientPlan plan_weight_gradient_first(const WeightGradient& of, int64_t cluster, int64_t parts) {
  Machine machine;
  GradientPlan best = {};
  if (current_machine(&machine) != cudaSuccess || of.batch == 0) return best;
  for (const int64_t blocks : {1, 2, 4}) {
    if (cluster >= 0 && blocks != cluster) continue;
    const GradientPlan plan = with_gradient_tile(of.d, blocks, [&](auto tile) {
      using Tile = decltype(tile);
      return Tile::cluster == blocks ? plan_gradient<Tile>(of, machine, parts) : GradientPlan();
    });
    if (plan.parts > 0 && (best.parts == 0 || plan.seconds < best.seconds)) best = plan;
  }
  return best;
}

int weight_gradient_first_cuda(const WeightGradient& of, const GradientPlan& plan, void* gradient,
                               const Workspace& workspace, void* stream) {
  return with_gradient_tile(of.d, plan.cluster, [&](auto tile) -> cudaError_t {
    using Tile = decltype(tile);
    const auto on = static_cast<cudaStream_t>(stream);
    return of.dtype == Dtype::float16 ? launch_gradient<float16, Tile>(of, plan.parts, gradient, workspace, on)
                                      : launch_gradient<bfloat16, Tile>(of, plan.parts, gradient, workspace, on);
  });
}

#else

GradientPlan plan_weight_gradient_first(const WeightGradient&, int64_t, int64_t) { return {}; }
int weight_gradient_first_cuda(const WeightGradient&, const GradientPlan&, void*, const Workspace&, void*) {
  return cudaErrorNotSupported;
}

#endif

}  // namespace ksmm
