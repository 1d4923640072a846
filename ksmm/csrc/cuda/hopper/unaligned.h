// Products of 16-bit types in batch_last whose rows of n begin at any address, such as those of an odd batch.
#pragma once

#include "gemm.h"

namespace ksmm::hopper {

cudaError_t launch_unaligned_float16(const GemmView& view, const Machine& machine, cudaStream_t stream);
cudaError_t launch_unaligned_bfloat16(const GemmView& view, const Machine& machine, cudaStream_t stream);

}  // namespace ksmm::hopper

namespace ksmm {

Configurations unaligned_configurations();

}  // namespace ksmm
