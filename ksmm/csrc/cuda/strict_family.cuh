// The tiles of the strict float32 kernel that are compiled in, and which of them a problem gets.
#pragma once

#include <initializer_list>

#include "simt_family.cuh"
#include "strict_tile.cuh"

namespace ksmm {

// How many j a tile takes. What is padded is multiplied for nothing; runs of fewer than 8 j share their sectors of 32
// bytes with other tiles, unless they are all there are.
inline int strict_group(int64_t d) {
  if (d <= 4) return static_cast<int>(d);
  int best = 8;
  double least = 0;
  for (const int group : {8, 6, 4, 3}) {
    const double shared_sectors = group == d ? 0 : (8 - group) / 8.0;
    const double cost = static_cast<double>((d + group - 1) / group * group) * (1 + 0.3 * shared_sectors);
    if (least == 0 || cost < least) least = cost, best = group;
  }
  return best;
}

// The size that pads b least, of those given in falling order: the first of equals.
inline int strict_rows(int64_t b, std::initializer_list<int> sizes) {
  int best = *sizes.begin();
  for (const int size : sizes)
    if (wastes_less(b, size, best)) best = size;
  return best;
}

// Returns run(Choice<...>()) for the tile that suits the problem.
template <class Run>
auto with_strict_tile(const Problem& problem, Run run) {
  constexpr Layout first = Layout::batch_first, last = Layout::batch_last;
  const int64_t b = problem.b;
  if (problem.layout == last) {
    const int rows = strict_rows(b, {128, 64, 48, 32});
    if (rows == 128) return run(Choice<last, StrictTile<1, 8, 8, 8, 2, 4, 4, 2>>());
    if (rows == 64) return run(Choice<last, StrictTile<1, 8, 8, 8, 2, 2, 4, 4>>());
    if (rows == 48) return run(Choice<last, StrictTile<1, 8, 12, 8, 4, 1, 3, 3>>());
    return run(Choice<last, StrictTile<1, 8, 8, 8, 4, 1, 3, 4>>());
  }
  switch (strict_group(problem.d)) {
    case 1: {
      const int rows = strict_rows(b, {128, 64, 48, 32});
      if (rows == 128) return run(Choice<first, StrictTile<1, 8, 8, 4, 4, 2, 4, 2>>());
      if (rows == 64) return run(Choice<first, StrictTile<1, 8, 8, 4, 4, 1, 4, 4>>());
      if (rows == 48) return run(Choice<first, StrictTile<1, 8, 12, 8, 4, 1, 3, 3>>());
      return run(Choice<first, StrictTile<1, 8, 8, 8, 4, 1, 3, 4>>());
    }
    case 2:
      if (strict_rows(b, {64, 32}) == 64) return run(Choice<first, StrictTile<2, 8, 8, 4, 4, 1, 3, 2>>());
      return run(Choice<first, StrictTile<2, 8, 8, 8, 2, 1, 3, 4>>());
    case 3: return run(Choice<first, StrictTile<3, 8, 8, 4, 2, 1, 2, 2>>());
    case 4:
      if (strict_rows(b, {64, 32}) == 64) return run(Choice<first, StrictTile<4, 8, 8, 4, 2, 1, 2, 2>>());
      return run(Choice<first, StrictTile<4, 8, 8, 8, 1, 1, 2, 4>>());
    case 6: return run(Choice<first, StrictTile<6, 8, 8, 4, 1, 1, 2, 2>>());
    default: {
      const int rows = strict_rows(b, {64, 48, 32});
      if (rows == 64) return run(Choice<first, StrictTile<8, 8, 8, 4, 1, 1, 2, 2>>());
      if (rows == 48) return run(Choice<first, StrictTile<8, 8, 12, 8, 1, 1, 2, 1>>());
      return run(Choice<first, StrictTile<8, 8, 8, 8, 1, 1, 2, 2>>());
    }
  }
}

}  // namespace ksmm
