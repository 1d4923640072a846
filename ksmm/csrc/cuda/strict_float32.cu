// The strict float32 kernel.
#include "strict.cuh"
#include "tensor.cuh"  // shared_memory_limit

namespace ksmm {

cudaError_t multiply_strict(const Problem& problem, const Operands& operands, cudaStream_t stream) {
  int limit = 0;
  const cudaError_t error = shared_memory_limit(&limit);
  if (error != cudaSuccess) return error;
  return with_strict_tile(problem, limit, [&](auto choice) {
    using Tile = typename decltype(choice)::Tile;
    return launch<float>(strict_kernel<decltype(choice)::layout, Tile>, make_strict_task<Tile>(problem, operands),
                         Tile::threads, Tile::shared_bytes, stream);
  });
}

}  // namespace ksmm
