// batch_first: Y[n, i, r, j] = sum over k of X[n, i, k, j] W[i, r, k, j]; lanes are consecutive (r, j).
//
// For given (n, i), the b·d outputs are contiguous. They are cut into vectors: vector q holds the outputs
// q·L … q·L + L - 1 (L lanes), and output r·d + j needs X[n, i, k, j]. Vectors whose first outputs are equal mod d need
// the same elements of X in the same lanes: they form a group, and one load of X serves all vectors of a group.
//   d divides L    one group;               its elements: d of them, repeated
//   L divides d    d/L groups;              L consecutive elements
//   else           d/gcd(d, L) groups;      d < L: d elements, reordered as X is read or copied; d > L:
//                                           consecutive elements, wrapped around
// So lanes are never wasted, whatever d, nothing is transposed, and X and Y are read and written in order.
// This file holds these numbers; batch_first_weights.h packs the weights accordingly, batch_first.h multiplies.
#pragma once

#include "element.h"
#include "tile.h"
#include "work.h"

namespace ksmm {
namespace KSMM_VARIANT {

// How rows of the tile of X are laid out: k at a time, and the distance of two k. Either as X has them, and then one
// panel of weights stays in the first-level cache while all rows of the tile use it; or, from d = 8 on, where that
// would make most loads straddle two cache lines, as a vector for each k: slices.
template <class Spread>
struct RowFormat {
  static constexpr int most_floats = 64 * lanes;
  static bool slices(int64_t d) { return d >= 8; }
  static int64_t step(int64_t d) { return slices(d) ? lanes : d; }
  static int64_t most_depth(int64_t d) { return slices(d) ? 64 : smaller(128, most_floats / d); }
};
template <int period>
struct RowFormat<Repeat<period>> {
  static constexpr int64_t depth = period < 8 ? 128 : 64;
  static constexpr int most_floats = int(depth) * period;
  static constexpr bool slices(int64_t) { return false; }
  static Constant<period> step(int64_t) { return {}; }
  static int64_t most_depth(int64_t) { return depth; }
};
template <>
struct RowFormat<Consecutive> {
  static constexpr int64_t depth = 64;
  static constexpr int most_floats = int(depth) * lanes;
  static constexpr bool slices(int64_t) { return true; }
  static Constant<lanes> step(int64_t) { return {}; }
  static int64_t most_depth(int64_t) { return depth; }
};

// Up to so many rows float32 weights are read where they are stored, since packing them takes longer. With 16 registers
// a panel is less than whole lines of them for each k, which the first-level cache then holds in vain.
constexpr int64_t most_rows_of_stored = registers == 32 ? 256 : 8;

// What is multiplied at a time: some k of a block of n, and panels of weights.
struct FirstStage {
  int64_t set, i, first_panel, last_panel, n, count, k, depth;
};

struct FirstPlan {
  using Stage = FirstStage;

  Problem problem;
  bool shared;                        // all groups of an i read the same rows of the tile of X
  int64_t groups, group_step;         // a group's vectors start group_step = groups·L outputs apart
  int64_t used_groups;                // where there are fewer vectors than groups, those with one
  int width, rows;                    // N and M of the tiles
  int64_t panels;                     // of each group
  int64_t sets, set_panels;           // a set: the panels that share rows of X
  int64_t panel_block, panel_blocks;  // panels in a task, tasks over a set
  int64_t batch_block, batch_blocks;
  int64_t steps, depth;   // words along c, and at a time
  Indices orders[lanes];  // for Reorder, by group

  FirstPlan(const Problem& p, bool shared_rows, int64_t most_depth, int word_k)
      : problem(p), shared(shared_rows), steps(divide_up(p.c, word_k)) {
    groups = p.d / common_divisor(p.d, lanes);
    group_step = groups * lanes;
    used_groups = smaller(groups, divide_up(outputs(), lanes));
    const int64_t vectors = divide_up(p.b * p.d, group_step);
    // Weights that come from the second-level cache for each tile: few registers had better hold many rows then.
    width = choose_width(vectors, registers == 16 && !shared ? 2 : widest_tile);
    rows = tile_rows(width);
    panels = divide_up(vectors, width);
    sets = shared ? p.a : p.a * used_groups;
    set_panels = shared ? used_groups * panels : panels;
    depth = divide_up(steps, divide_up(steps, most_depth));
    panel_block = smaller(set_panels, larger(1, 65536 / (depth * width * lanes)));  // 256 KiB of weights
    panel_blocks = divide_up(set_panels, panel_block);
    panel_block = divide_up(set_panels, panel_blocks);
    // Weights that the caches do not hold are read once for each block of n: then blocks are larger.
    const bool large = p.d < 8 && p.a * p.b * steps * p.d > (1 << 18);
    batch_block = 16 * rows;
    if (!large || divide_up(p.batch, batch_block) * sets * panel_blocks < 32) batch_block = 8 * rows;
    // Threads need something to share; from two tiles on a task still uses what it reads of W twice.
    const int64_t others = sets * panel_blocks;
    while (batch_block > 2 * rows && others * divide_up(p.batch, batch_block) < 16) batch_block -= rows;
    batch_blocks = divide_up(p.batch, batch_block);
    while (reads_stored() && panel_block > 1 && sets * panel_blocks * batch_blocks < 16) {
      panel_block = divide_up(panel_block, 2), panel_blocks = divide_up(set_panels, panel_block);
    }
    for (int64_t group = 0; shared && group < groups; ++group) {
      for (int lane = 0; lane < lanes; ++lane) orders[group][lane] = int32_t((group * lanes + lane) % p.d);
    }
  }

  static int64_t common_divisor(int64_t one, int64_t other) {
    return other == 0 ? one : common_divisor(other, one % other);
  }

  int64_t tasks() const { return batch_blocks * sets * panel_blocks; }
  FirstStage first_stage(int64_t task) const {
    const int64_t first = task % panel_blocks * panel_block, set = task / panel_blocks % sets;
    const int64_t n = task / panel_blocks / sets * batch_block;
    return {
        set, set_i(set), first, smaller(first + panel_block, set_panels), n, smaller(batch_block, problem.batch - n),
        0,   0};
  }
  bool reads_stored() const { return problem.batch <= most_rows_of_stored; }
  int64_t panel_floats() const { return steps * width * lanes; }
  int64_t outputs() const { return problem.b * problem.d; }  // of one (n, i)
  int64_t group_of(int64_t set, int64_t panel) const { return shared ? panel / panels : set % used_groups; }
  int64_t set_i(int64_t set) const { return shared ? set : set / used_groups; }
  // The first output of the first vector of a panel.
  int64_t first_output(int64_t set, int64_t panel) const {
    return group_of(set, panel) * lanes + panel % panels * width * group_step;
  }
};

}  // namespace KSMM_VARIANT
}  // namespace ksmm
