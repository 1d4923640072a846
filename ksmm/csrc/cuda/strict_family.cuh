// The tiles of the strict float32 kernel that are compiled in, and which of them a problem gets.
#pragma once

#include <initializer_list>

#include "simt_family.cuh"
#include "strict_tile.cuh"

namespace ksmm {

// How many j a tile takes. What is padded is multiplied for nothing; runs of fewer than 8 j share their sectors of 32
// bytes with other tiles; and 6 warps or 3 leave more of a multiprocessor idle.
inline int strict_group(int64_t d) {
  if (d <= 4) return static_cast<int>(d);
  struct Group {
    int j;
    double cost;  // of one j, padded or not; fitted to d = 6 and 12 on an H200
  };
  int best = 0;
  double least = 0;
  for (const Group group : {Group{8, 1}, Group{6, 1.25}, Group{4, 1.15}, Group{3, 1.3}}) {
    const double cost = static_cast<double>((d + group.j - 1) / group.j * group.j) * group.cost;
    if (best == 0 || cost < least) least = cost, best = group.j;
  }
  return best;
}

// The size that pads b least, of those given, the fastest one first: that is the first of equals.
inline int strict_rows(int64_t b, std::initializer_list<int> sizes) {
  int best = *sizes.begin();
  for (const int size : sizes)
    if (wastes_less(b, size, best)) best = size;
  return best;
}

// Whether there are enough tiles of 128 x 128 for each multiprocessor to have several; else smaller ones share them out
// better.
inline bool strict_is_large(const Problem& problem) {
  const double tiles = static_cast<double>(problem.a * problem.d) * static_cast<double>((problem.batch + 127) / 128) *
                       static_cast<double>((problem.b + 127) / 128);
  return tiles >= 1000;
}

// The rows of W for a tile where j is 1, by times on an H200. More sums a thread read less of shared memory, and need a
// longer c for what comes before and after the products.
inline int strict_rows_of_one(const Problem& problem, bool large) {
  const int64_t b = problem.b, c = problem.c;
  if (problem.layout == Layout::batch_first)
    return large && c >= 256 ? strict_rows(b, {96, 128, 64, 48, 32}) : strict_rows(b, {128, 64, 48, 32});
  if (!large || c < 96) return strict_rows(b, {64, 48, 32});
  if (c >= 256) return strict_rows(b, {96, 128, 64, 48, 32});
  return c >= 128 ? strict_rows(b, {128, 64, 96, 48, 32}) : strict_rows(b, {96, 64, 48, 32});
}

template <class Run>
auto with_strict_tile_of_one(const Problem& problem, bool large, Run run) {
  constexpr Layout first = Layout::batch_first, last = Layout::batch_last;
  const int rows = strict_rows_of_one(problem, large);
  if (problem.layout == last) {
    if (rows == 128) return run(Choice<last, StrictTile<1, 16, 8, 8, 1, 4, 4, 2>>());
    if (rows == 96) return run(Choice<last, StrictTile<1, 16, 12, 8, 1, 2, 3, 4>>());
    if (rows == 64) return run(Choice<last, StrictTile<1, 8, 8, 8, 2, 2, 4, 4>>());
    if (rows == 48) return run(Choice<last, StrictTile<1, 8, 12, 8, 4, 1, 3, 3>>());
    return run(Choice<last, StrictTile<1, 8, 8, 8, 4, 1, 3, 4>>());
  }
  if (rows == 128) return run(Choice<first, StrictTile<1, 8, 8, 4, 4, 2, 4, 2>>());
  if (rows == 96) return run(Choice<first, StrictTile<1, 16, 12, 8, 1, 2, 4, 4>>());
  if (rows == 64) return run(Choice<first, StrictTile<1, 8, 8, 4, 4, 1, 4, 4>>());
  if (rows == 48) return run(Choice<first, StrictTile<1, 8, 12, 8, 4, 1, 3, 3>>());
  return run(Choice<first, StrictTile<1, 8, 8, 8, 4, 1, 3, 4>>());
}

// The tiles of 96 r and of three stages are for d = 4: with d = 12 they took 1.09 and 1.03 of the time of the others.
template <class Run>
auto with_strict_tile_of_four(const Problem& problem, int shared_limit, Run run) {
  constexpr Layout first = Layout::batch_first;
  using Deep = StrictTile<4, 8, 8, 4, 2, 1, 3, 2>;
  const int64_t b = problem.b;
  const int rows = problem.d != 4 ? strict_rows(b, {64, 48, 32})
                   : b <= 192     ? strict_rows(b, {96, 64, 48, 32})
                                  : strict_rows(b, {64, 96, 48, 32});
  if (rows == 96) return run(Choice<first, StrictTile<4, 16, 12, 4, 1, 1, 2, 2>>());
  if (rows == 64 && problem.d == 4 && 2 * Deep::shared_bytes <= shared_limit) return run(Choice<first, Deep>());
  if (rows == 64) return run(Choice<first, StrictTile<4, 8, 8, 4, 2, 1, 2, 2>>());
  if (rows == 48) return run(Choice<first, StrictTile<4, 8, 12, 8, 1, 1, 3, 3>>());
  return run(Choice<first, StrictTile<4, 8, 8, 8, 1, 1, 2, 4>>());
}

template <class Run>
auto with_strict_tile_of_eight(int64_t b, int shared_limit, Run run) {
  constexpr Layout first = Layout::batch_first;
  using Wide = StrictTile<8, 16, 12, 4, 1, 1, 2, 1>;
  const bool wide = b <= 192 && Wide::shared_bytes <= shared_limit;
  const int rows = wide ? strict_rows(b, {96, 64, 32, 48}) : strict_rows(b, {64, 32, 48});
  if (rows == 96) return run(Choice<first, Wide>());
  if (rows == 64) return run(Choice<first, StrictTile<8, 8, 8, 4, 1, 1, 2, 2>>());
  if (rows == 48) return run(Choice<first, StrictTile<8, 4, 12, 8, 1, 1, 2, 2>>());
  return run(Choice<first, StrictTile<8, 8, 8, 8, 1, 1, 2, 2>>());
}

// Returns run(Choice<...>()) for the tile that suits the problem. shared_limit: bytes of shared memory for a block;
// large: strict_is_large.
template <class Run>
auto with_strict_tile(const Problem& problem, int shared_limit, bool large, Run run) {
  constexpr Layout first = Layout::batch_first;
  const int64_t b = problem.b;
  const int group = problem.layout == first ? strict_group(problem.d) : 1;
  switch (group) {
    case 1: return with_strict_tile_of_one(problem, large, run);
    case 2: {
      const int rows = strict_rows(b, {128, 64, 32});
      if (rows == 128) return run(Choice<first, StrictTile<2, 8, 8, 4, 2, 2, 3, 2>>());
      if (rows == 64) return run(Choice<first, StrictTile<2, 8, 8, 4, 4, 1, 3, 2>>());
      return run(Choice<first, StrictTile<2, 8, 8, 8, 2, 1, 3, 4>>());
    }
    case 3:
      if (strict_rows(b, {64, 48}) == 64) return run(Choice<first, StrictTile<3, 16, 8, 4, 1, 1, 2, 3>>());
      return run(Choice<first, StrictTile<3, 8, 12, 8, 1, 1, 3, 4>>());
    case 4: return with_strict_tile_of_four(problem, shared_limit, run);
    case 6: return run(Choice<first, StrictTile<6, 8, 8, 4, 1, 1, 2, 2>>());
    default: return with_strict_tile_of_eight(b, shared_limit, run);
  }
}

// The same for small problems: 16 sums a thread, so that as many multiprocessors as can be have a tile, and enough
// stages for most of their c to be on its way at once. Tiles of 16 n are slower (1.15 times: more of W, number by
// number), and taken where they leave fewer to each multiprocessor.
template <Layout LAYOUT, class Run>
auto with_small_strict_tile_of_one(const Problem& problem, int multiprocessors, Run run) {
  const auto rounds = [&](int64_t n, int64_t r) {
    const int64_t tiles = problem.a * problem.d * ((problem.batch + n - 1) / n) * ((problem.b + r - 1) / r);
    return (tiles + multiprocessors - 1) / multiprocessors;
  };
  if (8 * rounds(16, 64) < 7 * rounds(32, 32)) return run(Choice<LAYOUT, StrictTile<1, 4, 4, 4, 1, 2, 6, 10>>());
  return run(Choice<LAYOUT, StrictTile<1, 4, 4, 8, 1, 2, 6, 10>>());
}

// PARTS of a block share a tile's steps of k: for up to two planes, whose tiles have two warps.
template <int PARTS, class Run>
auto with_small_strict_tile(const Problem& problem, int multiprocessors, Run run) {
  constexpr Layout first = Layout::batch_first, last = Layout::batch_last;
  if (problem.layout == last) return with_small_strict_tile_of_one<last>(problem, multiprocessors, run);
  if (problem.d == 1) return with_small_strict_tile_of_one<first>(problem, multiprocessors, run);
  if constexpr (PARTS > 1) {
    return run(Choice<first, StrictTile<2, 4, 4, 8, 1, 1, 4, 8>>());
  } else {
    switch (strict_group(problem.d)) {
      case 2: return run(Choice<first, StrictTile<2, 4, 4, 8, 1, 1, 6, 8>>());
      case 3: return run(Choice<first, StrictTile<3, 4, 4, 8, 1, 1, 6, 6>>());
      case 4: return run(Choice<first, StrictTile<4, 4, 4, 8, 1, 1, 5, 4>>());
      case 6: return run(Choice<first, StrictTile<6, 4, 4, 8, 1, 1, 5, 3>>());
      default: return run(Choice<first, StrictTile<8, 4, 4, 8, 1, 1, 4, 2>>());
    }
  }
}

}  // namespace ksmm
