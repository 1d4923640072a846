// The strict float32 kernel.
#include "strict.cuh"

namespace ksmm {

cudaError_t multiply_strict(const Problem& problem, const Operands& operands, const Machine& machine,
                            cudaStream_t stream) {
  return with_strict_tile(problem, machine.shared_limit, strict_is_large(problem), [&](auto choice) {
    using Tile = typename decltype(choice)::Tile;
    // a block a tile, whose turn comes when there is room; on a part of the device no more than have room there
    const int64_t room = machine.multiprocessors * Tile::blocks_per_multiprocessor;
    return launch<float>(strict_kernel<decltype(choice)::layout, Tile>, make_strict_task<Tile>(problem, operands),
                         Tile::threads, Tile::shared_bytes, stream, machine.is_part ? room : most_blocks_of_a_grid);
  });
}

}  // namespace ksmm
