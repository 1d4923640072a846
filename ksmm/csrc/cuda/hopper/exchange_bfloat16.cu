// The exchange kernels for bfloat16.
#if defined(KSMM_SM90A)
#include "exchange_launch.cuh"

namespace ksmm::hopper {

cudaError_t launch_exchange_bfloat16(const GemmView& view, ExchangeShape shape, const Machine& machine,
                                     cudaStream_t stream) {
  return launch_exchange_of<bfloat16>(view, shape, machine, stream);
}

}  // namespace ksmm::hopper
#endif
