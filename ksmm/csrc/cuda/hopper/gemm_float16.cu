// The gemm kernels for float16.
#if defined(KSMM_SM90A)
#include "gemm_launch.cuh"

namespace ksmm::hopper {

cudaError_t launch_gemm_float16(const GemmView& view, GemmTile tile, const Machine& machine, cudaStream_t stream) {
  return launch_gemm_of<float16>(view, tile, machine, stream);
}

}  // namespace ksmm::hopper
#endif
