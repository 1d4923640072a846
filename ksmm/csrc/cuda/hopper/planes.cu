// The family "planes": its configurations, whose kernels are compiled in a file for each dtype.
#include <cmath>
#include <iterator>

#include "../number.cuh"
#include "planes.h"
#include "planes_family.h"
#include "planes_launch.cuh"

namespace ksmm::hopper {

#ifdef KSMM_SM90A

namespace {

template <class Tile>
cudaError_t launch(const Problem& problem, const Operands& operands, const Machine& machine, const Workspace&,
                   cudaStream_t stream) {
  return problem.dtype == Dtype::float16 ? launch_planes<float16, Tile>(problem, operands, machine, stream)
                                         : launch_planes<bfloat16, Tile>(problem, operands, machine, stream);
}

#define KSMM_TILE(name, ...)                                                                   \
  {name, true, planes_takes<PlanesTile<__VA_ARGS__>>, planes_seconds<PlanesTile<__VA_ARGS__>>, \
   launch<PlanesTile<__VA_ARGS__>>},
constexpr Configuration family[] = {KSMM_PLANES_TILES};
#undef KSMM_TILE

}  // namespace

Configurations planes_configurations() { return {family, static_cast<int>(std::size(family))}; }

#else

Configurations planes_configurations() { return {nullptr, 0}; }

#endif

}  // namespace ksmm::hopper
