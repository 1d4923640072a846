// The shifted kernel for float16.
#if defined(KSMM_SM90A)
#include "shifted_launch.cuh"

namespace ksmm::hopper {

cudaError_t launch_shifted_float16(const GemmView& view, ShiftedSize size, const Machine& machine,
                                   cudaStream_t stream) {
  return launch_shifted_of<float16>(view, size, machine, stream);
}

cudaError_t launch_shifted_single_float16(const GemmView& view, int columns, cudaStream_t stream) {
  return launch_shifted_single_of<float16>(view, columns, stream);
}

}  // namespace ksmm::hopper
#endif
