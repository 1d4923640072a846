// The tiles of the matrix-unit kernel that are compiled in, and which of them a problem gets.
#pragma once

#include "simt_family.cuh"
#include "tensor_kernel.cuh"

namespace ksmm {

#ifdef KSMM_TUNE
inline int tune() {
  const char* text = getenv("KSMM_TILE");
  return text ? atoi(text) : 0;
}
#else
inline constexpr int tune() { return 0; }
#endif

// Returns run(Choice<...>()) for the tile that suits the problem and a device that lets a block have shared_limit bytes
// of shared memory.
template <class Run>
auto with_tensor_tile(const Problem& problem, int shared_limit, Run run) {
  constexpr Layout first = Layout::batch_first, last = Layout::batch_last;
  using OneJ = TensorTile<128, 64, 1, 32, 32, 64, 4, 3>;
  using OneJLong = TensorTile<256, 64, 1, 32, 64, 64, 4, 2>;
  using OneJWide = TensorTile<128, 128, 1, 32, 64, 32, 4, 2>;
  using OneJ192 = TensorTile<128, 192, 1, 32, 64, 64, 4, 2>;
  using OneJ256 = TensorTile<128, 256, 1, 32, 64, 64, 4, 1>;
  using SixteenJ = TensorTile<32, 32, 16, 16, 16, 16, 3, 1>;
  using SixteenJWide = TensorTile<32, 64, 16, 16, 16, 16, 4, 1>;

  using SixteenJ48 = TensorTile<32, 48, 16, 16, 16, 16, 4, 1>;

  const int t = tune();
  if (problem.layout == last) {
    if (t == 1) return run(Choice<last, OneJLong>());
    if (t == 2) return run(Choice<last, OneJWide>());
    if (t == 3) return run(Choice<last, OneJ192>());
    if (t == 4) return run(Choice<last, OneJ256>());
    return run(Choice<last, OneJ>());
  }
  if (problem.d == 1) {
    if (t == 1) return run(Choice<first, OneJLong>());
    if (t == 2) return run(Choice<first, OneJWide>());
    if (t == 3) return run(Choice<first, OneJ192>());
    if (t == 4) return run(Choice<first, OneJ256>());
    return run(Choice<first, OneJ>());
  }
  if (problem.d == 2) return run(Choice<first, TensorTile<64, 64, 2, 32, 32, 32, 4, 3>>());
  if (problem.d <= 4) return run(Choice<first, TensorTile<64, 64, 4, 16, 32, 32, 4, 2>>());
  if (problem.d <= 8) return run(Choice<first, TensorTile<32, 64, 8, 16, 16, 32, 4, 2>>());
  if (problem.b > 32 && wastes_less(problem.b, 48, 64) && TensorShared<first, SixteenJ48>::bytes <= shared_limit)
    return run(Choice<first, SixteenJ48>());
  if (problem.b > 32 && TensorShared<first, SixteenJWide>::bytes <= shared_limit)
    return run(Choice<first, SixteenJWide>());
  return run(Choice<first, SixteenJ>());
}

}  // namespace ksmm
