// The strict float32 kernel.
#include "strict.cuh"

namespace ksmm {

cudaError_t multiply_strict(const Problem& problem, const Operands& operands, cudaStream_t stream) {
  return with_strict_tile(problem, [&](auto choice) {
    using Tile = typename decltype(choice)::Tile;
    return launch<float>(strict_kernel<decltype(choice)::layout, Tile>, make_strict_task<Tile>(problem, operands),
                         Tile::threads, Tile::shared_bytes, stream);
  });
}

}  // namespace ksmm
