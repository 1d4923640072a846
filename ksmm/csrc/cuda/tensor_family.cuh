// The tiles of the matrix-unit kernel that are compiled in, and which of them a problem gets.
#pragma once

#include "simt_family.cuh"
#include "tensor_kernel.cuh"

namespace ksmm {

// The shared memory that every GPU since compute capability 8.0 lets a block have.
constexpr int least_shared_limit = 99 * 1024;

// One j at a time. Rows of 192 leave no row of a padded tile where b is a multiple, and read X once; 64 rows come with
// twice the batch, so that the weights are read half as often.
template <Layout LAYOUT, class Run>
auto with_tile_of_one_j(const Problem& problem, Run run) {
  constexpr bool first = LAYOUT == Layout::batch_first;  // whose X, with padded rows of K, takes more room
  using Long = TensorTile<256, 64, 1, 32, 64, 64, first ? 3 : 4, 2>;
  using Narrow = TensorTile<128, 64, 1, 32, 32, 64, 4, 3>;
  using Wide = TensorTile<128, 128, 1, 32, 64, 32, 4, 2>;
  using Widest = TensorTile<128, 192, 1, 32, 64, 64, 4, 2>;
  static_assert(TensorShared<LAYOUT, Long>::bytes <= least_shared_limit &&
                    TensorShared<LAYOUT, Wide>::bytes <= least_shared_limit &&
                    TensorShared<Layout::batch_last, Widest>::bytes <= least_shared_limit,
                "these are for every GPU");

  if constexpr (!first)
    if (problem.b % 192 == 0) return run(Choice<LAYOUT, Widest>());
  if (!wastes_less(problem.b, 64, 128)) return run(Choice<LAYOUT, Wide>());
  return problem.b % 64 == 0 ? run(Choice<LAYOUT, Long>()) : run(Choice<LAYOUT, Narrow>());
}

// Sixteen j: a whole sector of X for each row and column. The tiles of 48 and 64 rows need the shared memory of a
// server's GPU.
template <class Run>
auto with_tile_of_sixteen_j(const Problem& problem, int shared_limit, Run run) {
  constexpr Layout first = Layout::batch_first;
  using Wide = TensorTile<32, 64, 16, 16, 16, 16, 4, 1>;
  using Middle = TensorTile<32, 48, 16, 16, 16, 16, 4, 1>;
  using Narrow = TensorTile<32, 32, 16, 16, 16, 16, 2, 1>;
  static_assert(TensorShared<first, Narrow>::bytes <= least_shared_limit, "this one is for every GPU");

  if (problem.b <= 32 || TensorShared<first, Wide>::bytes > shared_limit) return run(Choice<first, Narrow>());
  return wastes_less(problem.b, 48, 64) ? run(Choice<first, Middle>()) : run(Choice<first, Wide>());
}

// Returns run(Choice<...>()) for the tile that suits the problem and a device that lets a block have shared_limit bytes
// of shared memory.
template <class Run>
auto with_tensor_tile(const Problem& problem, int shared_limit, Run run) {
  constexpr Layout first = Layout::batch_first;
  using TwoJ = TensorTile<64, 64, 2, 32, 32, 32, 4, 3>;
  using FourJ = TensorTile<64, 64, 4, 16, 32, 32, 4, 2>;
  using EightJ = TensorTile<32, 64, 8, 16, 16, 32, 4, 2>;
  using EightJSmaller = TensorTile<32, 64, 8, 16, 16, 32, 3, 2>;
  static_assert(TensorShared<first, TwoJ>::bytes <= least_shared_limit &&
                    TensorShared<first, FourJ>::bytes <= least_shared_limit &&
                    TensorShared<first, EightJSmaller>::bytes <= least_shared_limit,
                "these are for every GPU");

  if (problem.layout == Layout::batch_last) return with_tile_of_one_j<Layout::batch_last>(problem, run);
  if (problem.d == 1) return with_tile_of_one_j<first>(problem, run);
  if (problem.d == 2) return run(Choice<first, TwoJ>());
  if (problem.d <= 4) return run(Choice<first, FourJ>());
  if (problem.d > 8) return with_tile_of_sixteen_j(problem, shared_limit, run);
  return TensorShared<first, EightJ>::bytes <= shared_limit ? run(Choice<first, EightJ>())
                                                            : run(Choice<first, EightJSmaller>());
}

}  // namespace ksmm
