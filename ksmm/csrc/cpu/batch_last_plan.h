// batch_last: how the product is cut into tasks.
#pragma once

#include "tile.h"
#include "work.h"

namespace ksmm {
namespace KSMM_VARIANT {

// What is multiplied at a time: some k of a block of X and a block of rows of the weights.
struct LastStage {
  int64_t ij, first_row, last_row, first_panel, last_panel, k, depth;
};

struct LastPlan {
  using Stage = LastStage;
  // With 16 registers a tile of two vectors has as many sums as one of three, and AVX2's are a cache line of X and of
  // Y; so narrow a panel may be deep, which adds sums to each other less often, where fewer columns leave room in the
  // second-level cache.
  static constexpr int widest = registers == 16 ? 2 : widest_tile;
  static constexpr int64_t most_depth = registers == 16 ? 256 : 128;
  static constexpr int64_t most_columns = registers == 16 ? 128 : 256;

  Problem problem;
  int width, rows;                                  // N and M of the tiles
  int64_t row_panels, row_block, row_blocks;        // panels of M rows in all, in a task, tasks over them
  int64_t batch_panels, batch_block, batch_blocks;  // the same of N vectors over n
  int64_t steps, depth;                             // words along c, and at a time

  LastPlan(const Problem& p, int word_k) : problem(p), steps(divide_up(p.c, word_k)) {
    const int64_t vectors = divide_up(p.batch, lanes);
    width = choose_width(vectors, widest);
    rows = tile_rows(width);
    row_panels = divide_up(p.b, rows);
    row_block = smaller(row_panels, divide_up(256, rows));
    row_blocks = divide_up(row_panels, row_block);
    batch_panels = divide_up(vectors, width);
    batch_block = smaller(batch_panels, divide_up(most_columns, width * lanes));
    while (batch_block > 1 && p.a * p.d * row_blocks * divide_up(batch_panels, batch_block) < 64) batch_block /= 2;
    batch_blocks = divide_up(batch_panels, batch_block);
    depth = divide_up(steps, divide_up(steps, most_depth));
  }

  int64_t tasks() const { return problem.a * problem.d * batch_blocks * row_blocks; }
  LastStage first_stage(int64_t task) const {
    const int64_t first_row = task % row_blocks * row_block;
    const int64_t first_panel = task / row_blocks % batch_blocks * batch_block;
    return {task / row_blocks / batch_blocks,
            first_row,
            smaller(first_row + row_block, row_panels),
            first_panel,
            smaller(first_panel + batch_block, batch_panels),
            0,
            0};
  }
  int64_t panel_floats() const { return steps * rows; }
};

}  // namespace KSMM_VARIANT
}  // namespace ksmm
