// The planes kernels for bfloat16.
#include "planes_family.h"
#include "planes_instances.cuh"

#ifdef KSMM_SM90A
namespace ksmm::hopper {
#define KSMM_TILE(name, weight, ...)                                                                                  \
  template cudaError_t launch_planes<bfloat16, PlanesTile<__VA_ARGS__>>(const Problem&, const Operands&, const void*, \
                                                                        const Machine&, cudaStream_t);
KSMM_PLANES_TILES
#undef KSMM_TILE
}  // namespace ksmm::hopper
#endif
