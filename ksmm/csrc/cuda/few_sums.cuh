// The last part of dot products that a group of lanes shares: the sums of what its lanes have.
//
// The lanes halve the work as they go (recursive halving, as in a reduce-scatter): at each step a lane hands half of
// its sums to another, and adds that one's part to the half that it keeps, so that no sum is added up twice while there
// are others. In float32 they keep what each addition rounds off (Knuth's TwoSum, as in Sum2 of Ogita, Rump and Oishi,
// "Accurate sum and dot product", 2005, Algorithm 4.4) and add it at the end. A sequence of multiply-adds rounds c
// times, but seldom by much where one product dominates; a tree without this errs up to 1.04 times as much then.
#pragma once

#include <cmath>

namespace ksmm::few {

// Adds to a sum, and to what roundings took from it.
template <bool COMPENSATED>
__device__ inline void add(float& sum, float& lost, float other, float other_lost) {
  const float total = sum + other;
  if constexpr (COMPENSATED) {
    const float part = total - sum;
    lost += other_lost + ((sum - (total - part)) + (other - part));
  }
  sum = total;
}

// Of COUNT sums those that a lane keeps come first afterwards, complete: max(COUNT / LANES, 1) of them from its share
// on, in the order of lanes; where there are more lanes than sums, neighbours have the same. COUNT and LANES are powers
// of two.
template <bool COMPENSATED, int COUNT, int LANES>
__device__ inline void share_sums(float* sums, float* lost) {
  if constexpr (LANES > 1) {
    constexpr int offset = LANES / 2, kept = COUNT > 1 ? COUNT / 2 : 1;
    const bool upper = COUNT > 1 && (threadIdx.x & offset) != 0;
#pragma unroll
    for (int at = 0; at < kept; ++at) {
      const int other = COUNT > 1 ? at + kept : at;
      const float away = __shfl_xor_sync(~0u, upper ? sums[at] : sums[other], offset);
      const float away_lost = COMPENSATED ? __shfl_xor_sync(~0u, upper ? lost[at] : lost[other], offset) : 0.0f;
      if (upper) sums[at] = sums[other], lost[at] = lost[other];
      add<COMPENSATED>(sums[at], lost[at], away, away_lost);
    }
    share_sums<COMPENSATED, kept, offset>(sums, lost);
  }
}

// A sum with what was lost; infinities and NaN, of which nothing can be lost, as they are.
__device__ inline float with_lost(float sum, float lost) { return isfinite(lost) ? sum + lost : sum; }

}  // namespace ksmm::few
