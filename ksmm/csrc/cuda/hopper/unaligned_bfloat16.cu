// The kernel for rows at any address, for bfloat16.
#if defined(KSMM_SM90A)
#include "unaligned_launch.cuh"

namespace ksmm::hopper {

cudaError_t launch_unaligned_bfloat16(const GemmView& view, const Machine& machine, cudaStream_t stream) {
  return launch_unaligned_of<bfloat16>(view, machine, stream);
}

}  // namespace ksmm::hopper
#endif
