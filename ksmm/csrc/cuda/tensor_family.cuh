// The tiles of the matrix-unit kernel that are compiled in, and which of them a problem gets.
#pragma once

#include "simt_family.cuh"
#include "tensor_kernel.cuh"

namespace ksmm {

// Returns run(Choice<...>()) for the tile that suits the problem and a device that lets a block have shared_limit bytes
// of shared memory.
template <class Run>
auto with_tensor_tile(const Problem& problem, int shared_limit, Run run) {
  constexpr Layout first = Layout::batch_first, last = Layout::batch_last;
  using OneJ = TensorTile<128, 64, 1, 32, 64, 32, 3>;
  using OneJWide = TensorTile<128, 128, 1, 32, 64, 32, 2>;
  using SixteenJ = TensorTile<32, 32, 16, 16, 16, 32, 2>;
  using SixteenJWide = TensorTile<32, 64, 16, 16, 16, 32, 1>;

  const bool wide = !wastes_less(problem.b, 64, 128);
  if (problem.layout == last) return wide ? run(Choice<last, OneJWide>()) : run(Choice<last, OneJ>());
  if (problem.d == 1) return wide ? run(Choice<first, OneJWide>()) : run(Choice<first, OneJ>());
  if (problem.d == 2) return run(Choice<first, TensorTile<64, 64, 2, 32, 32, 32, 3>>());
  if (problem.d <= 4) return run(Choice<first, TensorTile<64, 64, 4, 16, 32, 32, 2>>());
  if (problem.d <= 8) return run(Choice<first, TensorTile<32, 64, 8, 16, 16, 32, 2>>());
  if (problem.b > 32 && TensorShared<first, SixteenJWide>::bytes <= shared_limit)
    return run(Choice<first, SixteenJWide>());
  return run(Choice<first, SixteenJ>());
}

}  // namespace ksmm
