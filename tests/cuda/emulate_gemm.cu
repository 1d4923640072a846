// Follows the boxes of Y of gemm's wide tiles, and of its blocks with one tile, on the CPU, with the kernel's own
// arithmetic: that threads store each sum where the copy engine takes it from, eight rows at a time to different banks,
// and that each number of Y is written once, from where it should come, and nothing else; and that tiles take all of c.
// And the matrix that W is spread to, by the threads of each kind of blocks, and which tiles those blocks have that
// stay with a matrix. And the tiles of pairs of blocks (gemm_pairs.h), and the views of products (gemm_views.h).
//
// Needs nvcc but no GPU.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <utility>
#include <vector>

#include "../../ksmm/csrc/cuda/hopper/gemm_launch.cuh"
#include "gemm_pairs.h"
#include "gemm_views.h"

using namespace ksmm;
using namespace ksmm::hopper;

constexpr int64_t nothing = -1;  // outside of a tensor
constexpr int unknown = -1;      // what no thread has stored

GemmView any_view(std::mt19937& random, bool rows_contiguous, int most_b) {
  const auto any = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)) + 1; };
  GemmView view = {};
  view.rows_contiguous = rows_contiguous;
  view.groups_i = any(2), view.groups_j = any(3), view.b = any(most_b);
  view.c = view.b + (any(2) == 1 ? 8 * any(100) : 0);         // long sums, or not
  view.rows = any(2) == 1 ? 8 * any(70) : gemm_run * any(4);  // the copy engine takes multiples of 16 bytes
  if (rows_contiguous) {
    view.y_strides = {view.b * view.groups_j * view.rows, view.rows, 1, view.groups_j * view.rows};
  } else {  // several j side by side, as between passes
    view.b = 8 * ((view.b + 7) / 8);
    view.y_strides = {view.b * view.groups_j, view.b, view.groups_i * view.groups_j * view.b, 1};
  }
  return view;
}

// The number in memory of an element of a tensor.
int64_t element(const TensorBox& tensor, const std::vector<int64_t>& at) {
  int64_t number = 0;
  for (size_t dimension = 0; dimension < at.size(); ++dimension) {
    if (at[dimension] < 0 || at[dimension] >= tensor.sizes[dimension]) return nothing;
    number += at[dimension] * tensor.strides[dimension];
  }
  return number;
}

// What the threads of a warpgroup store to a box: 128 r + n, both counted from its beginning. Thread 4 g + t has of
// matrix m the sums of n = g and r = 2 t, 2 t + 1 (products.cuh), which stmatrix puts, transposed, behind the address
// that lane 8 m + r gave.
template <class Tile>
bool put(std::vector<int>& box) {
  using Outlet = WideOutlet<float16, Tile>;
  for (int block = 0; block < Tile::blocks; ++block)
    for (int column = 0; column < Tile::part; column += 16)
      for (int warp = 0; warp < 4; ++warp)
        for (int matrix = 0; matrix < 4; ++matrix) {
          int banks = 0;
          for (int row = 0; row < 8; ++row) {
            const int byte = Outlet::place_of(column, block * gemm_rows, 32 * warp + 8 * matrix + row);
            if (byte % 16 != 0) return true;
            banks |= 1 << byte / 16 % 8;
            for (int g = 0; g < 8; ++g) {
              int& place = box.at(static_cast<size_t>(byte / 2 + g));
              if (place != unknown) return true;
              const int n = block * gemm_rows + 16 * warp + 8 * (matrix % 2) + g, r = column + 8 * (matrix / 2) + row;
              place = gemm_run * r + n;
            }
          }
          if (banks != 255) return true;
        }
  return false;
}

// Whether the steps of a tile are not all stages of c, each once.
template <class Tile>
bool misses_a_stage(WideTask task, const PairPlace<Tile>& place) {
  for (task.k_steps = 1; task.k_steps <= 5; ++task.k_steps) {
    std::vector<int> taken(task.k_steps);
    PairSteps<Tile> steps(task);
    steps.begin(task, place);
    for (int step = 0; step < task.k_steps; ++step) ++taken.at(steps.k(step) / gemm_step);
    if (taken != std::vector<int>(task.k_steps, 1)) return true;
  }
  return false;
}

template <class Tile>
bool is_wrong(const GemmView& view) {
  WideTask task;
  task.rows = static_cast<int>(view.rows), task.b = static_cast<int>(view.b);
  task.groups_j = static_cast<int>(view.groups_j);
  count_tiles<Tile, rows_of_pair>(&task, view);
  task.planes = planes_side_by_side(view);
  const WideBoxes boxes = boxes_of_wide<Tile>(view);
  std::vector<int> box(Tile::box_bytes / 2, unknown), written(view.groups_i * view.b * view.groups_j * view.rows);
  if (put<Tile>(box)) return true;
  for (int tile = 0; tile < task.tiles; ++tile)
    for (int rank = 0; rank < Tile::cluster; ++rank) {
      const PairPlace<Tile> place(task, tile, rank);
      if (misses_a_stage(task, place)) return true;
      const bool run = WideOutlet<float16, Tile>::is_run(task, place.n);
      const TensorBox& tensor = run ? boxes.runs : boxes.rows;
      for (int r0 = place.r; r0 < place.r + Tile::columns && place.n < task.rows; r0 += Tile::part)
        for (int at = 0; at < tensor.box[0] * tensor.box[run ? 3 : 2]; ++at) {
          const int64_t n = at % tensor.box[0], r = r0 + at / tensor.box[0];
          const int64_t to = run ? element(tensor, {n, place.n / gemm_run, place.j, r, place.i})
                                 : element(tensor, {place.n + n, place.j, r, place.i});
          if (to == nothing) continue;
          const int from = box.at(static_cast<size_t>(at));
          if (from == unknown || r0 + from / gemm_run != r || from % gemm_run != n) return true;
          if (to != ((place.i * view.b + r) * view.groups_j + place.j) * view.rows + place.n + n) return true;
          ++written.at(static_cast<size_t>(to));
        }
    }
  for (const int times : written)
    if (times != 1) return true;
  return false;
}

// The same of a block with one tile: which sum is where in its boxes, as (n of a tile) r + n,
// both counted from the tile's beginning.
template <class Tile, bool ROWS_CONTIGUOUS>
bool put_single(std::vector<std::vector<int>>& boxes) {
  using Outlet = Outlet<float16, ROWS_CONTIGUOUS, 2>;
  for (int block = 0; block < Tile::blocks; ++block)
    for (int column = 0; column < Tile::columns; column += 16)
      for (int thread = 0; thread < 128; thread += 8) {
        const int warp = thread / 32, matrix = thread / 8 % 4;
        int banks = 0;
        for (int row = 0; row < 8; ++row) {
          const int byte = Outlet::place_of(column % 64, thread + row);
          banks |= 1 << byte / 16 % 8;
          // within a row of 128 bytes the engine takes chunk c from where chunk c xor the row's number is
          const int line = byte / 128, chunk = byte / 16 % 8 ^ line % 8;
          for (int g = 0; g < 8; ++g) {
            int& place = boxes.at(Tile::box_of(block, column)).at(64 * line + 8 * chunk + g);
            if (place != unknown) return true;
            const int n = block * gemm_rows + 16 * warp + 8 * (matrix % 2) + (ROWS_CONTIGUOUS ? g : row);
            const int r = column + 8 * (matrix / 2) + (ROWS_CONTIGUOUS ? row : g);
            place = Tile::rows * r + n;
          }
        }
        if (banks != 255) return true;
      }
  return false;
}

template <class Tile, bool ROWS_CONTIGUOUS>
bool is_wrong_single(const GemmView& view) {
  GemmTask task;
  task.b = static_cast<int>(view.b), task.groups_j = static_cast<int>(view.groups_j);
  count_tiles<Tile, Tile::rows>(&task, view);
  const TensorBox tensor = gemm_rows_by_features(view, view.y_strides, view.b);
  if (tensor.box[0] != 64) return true;
  std::vector<std::vector<int>> boxes(Tile::boxes, std::vector<int>(64 * 64, unknown));
  std::vector<int> written(view.groups_i * view.b * view.groups_j * view.rows);
  if (put_single<Tile, ROWS_CONTIGUOUS>(boxes)) return true;
  for (int tile = 0; tile < task.tiles; ++tile) {
    const SinglePlace<Tile> place(task, tile);
    for (int box = 0; box < Tile::boxes; ++box) {
      const int n0 = Tile::n_of_box(box), r0 = Tile::r_of_box(box);
      if (place.r + r0 >= task.b) continue;
      for (int at = 0; at < 64 * tensor.box[ROWS_CONTIGUOUS ? 2 : 1]; ++at) {
        const int along = at % 64, line = at / 64;  // of the contiguous dimension, and of the other
        const int64_t n = n0 + (ROWS_CONTIGUOUS ? along : line), r = r0 + (ROWS_CONTIGUOUS ? line : along);
        const int64_t to = ROWS_CONTIGUOUS ? element(tensor, {place.n + n, place.j, place.r + r, place.i})
                                           : element(tensor, {place.r + r, place.n + n, place.j, place.i});
        if (to == nothing) continue;
        if (boxes[box][at] != Tile::rows * r + n) return true;
        const GemmStrides& strides = view.y_strides;
        if (to !=
            place.i * strides.i + place.j * strides.j + (place.n + n) * strides.rows + (place.r + r) * strides.features)
          return true;
        ++written.at(static_cast<size_t>(to));
      }
    }
  }
  for (const int times : written)
    if (times != 1) return true;
  return false;
}

// Whether the numbers of a tile's matrix, as the matrix units read them, are those of W and zeros.
template <class Tile, int D, int THREADS, int ROWS, int PARTS>
bool is_wrong_spread(std::mt19937& random) {
  const auto any = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)) + 1; };
  SpreadTask task;
  const int groups_i = any(3), b = any(60);
  task.c = spread_vector * any(9), task.d = D;
  task.b = b * D, task.inverse_d = inverse_of(D), task.k_steps = (task.c * D + gemm_step - 1) / gemm_step;
  task.w_r = task.c + spread_vector * any(3), task.w_j = b * task.w_r, task.w_i = D * task.w_j;
  std::vector<uint16_t> weight(static_cast<size_t>(groups_i * task.w_i));
  for (uint16_t& number : weight) number = static_cast<uint16_t>(random());
  task.w = weight.data();
  const int i = any(groups_i) - 1, first = any(task.b) - 1;
  constexpr uint16_t unwritten = 0xabcd;
  const std::vector<uint16_t> before(task.k_steps * Tile::weight_bytes / 2, unwritten);
  std::vector<uint16_t> matrix = before;
  size_t written = 0;  // chunks
  for (int thread = 0; thread < THREADS; ++thread) {
    std::vector<uint16_t> share = before;
    spread_weight<Tile, D, THREADS, ROWS, PARTS>(task, first, i, thread,
                                                 reinterpret_cast<unsigned char*>(share.data()));
    for (size_t at = 0; at < share.size(); at += 8) {
      if (std::count(&share[at], &share[at] + 8, unwritten) == 8) continue;
      std::copy_n(&share[at], 8, &matrix[at]), ++written;
    }
  }
  if (written != matrix.size() / 8) return true;  // each once
  for (size_t at = 0; at < matrix.size(); ++at) {
    const int number = static_cast<int>(at), line = number / 64 % Tile::columns;
    const int chunk = number / 8 % 8 ^ line % 8;  // where the swizzle takes it from
    const int output = first + line, input = number / (Tile::columns * 64) * gemm_step + 8 * chunk + number % 8;
    const int r = output / D, k = input / D, j = output % D;
    const bool counts = output < task.b && k < task.c && input % D == j;
    const uint16_t wanted = counts ? weight.at(i * task.w_i + r * task.w_r + j * task.w_j + k) : uint16_t{0};
    if (matrix.at(at) != wanted) return true;
  }
  return false;
}

template <int D>
bool is_wrong_of_spreading(std::mt19937& random, int kind) {
  const auto of_single = [&](auto tile) {
    using Tile = decltype(tile);
    return is_wrong_spread<Tile, D, Tile::threads, 16, 1>(random);
  };
  const auto of_resident = [&](auto tile) {
    using Tile = decltype(tile);
    return is_wrong_spread<Tile, D, Tile::consumers, Tile::spread_rows, Tile::spread_parts>(random);
  };
  switch (kind) {
    case 0: return of_single(SingleTile<64, 1>());
    case 1: return of_single(SingleTile<96, 2>());
    case 2: return of_resident(ResidentTile<128>());
    default: return of_resident(ResidentTile<192>());
  }
}

// Whether blocks that stay take each tile of n of each matrix once, as the thread does that fetches X, and have nearly
// the same number of them.
template <class Tile>
bool is_wrong_resident(std::mt19937& random) {
  const auto any = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)) + 1; };
  const auto any_size = [&](int most) { return any(any(most)); };  // small ones, too
  GemmView view = {};
  view.groups_i = any_size(400), view.groups_j = 1, view.rows = any_size(4'000), view.b = 8 * any_size(100);
  view.c = 8 * any_size(60);
  Machine machine = {};
  machine.multiprocessors = any(2) == 1 ? 132 : any(200), machine.shared_limit = 232448;
  ResidentTask task;
  task.b = static_cast<int>(view.b);
  count_tiles<Tile, gemm_rows>(&task, view);
  const ResidentShares<Tile> shares(view, machine);
  if (shares.blocks > machine.multiprocessors || shares.row_tiles != task.row_tiles) return true;
  std::vector<int> taken(static_cast<size_t>(task.tiles));
  for (int block = 0; block < shares.blocks; ++block) {
    const ResidentRange range(task.tiles, block, shares.blocks);
    const int count = range.last - range.first;
    if (count < 1 || count > shares.tiles) return true;
    for (int warpgroup = 0; warpgroup < Tile::warpgroups; ++warpgroup) {
      int tile = range.first + warpgroup;
      for (int first = range.first; first < range.last;) {
        const ResidentPlace<Tile> place(task, first);
        first = std::min(range.last, place.first + task.row_tiles);
        for (; tile < first; tile += Tile::warpgroups) {
          const ResidentPlace<Tile> fetched(task, tile);
          if (fetched.i != place.i || fetched.r != place.r || fetched.n_of(tile) != place.n_of(tile)) return true;
          const int64_t row_tile = place.n_of(tile) / gemm_rows, column_tile = place.r / Tile::columns;
          if (place.r >= view.b || place.n_of(tile) >= view.rows) return true;
          ++taken.at((place.i * task.column_tiles + column_tile) * task.row_tiles + row_tile);
        }
      }
    }
  }
  const int64_t k_steps = parts_of(view.c, gemm_step);
  const int stages = stages_of_resident<Tile>(view, machine);
  if (stages >= Tile::least_stages && Tile::shared_bytes(k_steps, stages) > machine.shared_limit) return true;
  return std::any_of(taken.begin(), taken.end(), [](int times) { return times != 1; });
}

template <int COLUMNS, int STAGES, bool WIDE>
bool is_wrong_of(AlternatingTile<COLUMNS, STAGES, WIDE>, const GemmView& view) {
  if constexpr (WIDE) return is_wrong<AlternatingTile<COLUMNS, STAGES, WIDE>>(view);
  return true;
}
template <int COLUMNS, int BLOCKS>
bool is_wrong_of(SingleTile<COLUMNS, BLOCKS>, const GemmView& view) {
  using Tile = SingleTile<COLUMNS, BLOCKS>;
  return view.rows_contiguous ? is_wrong_single<Tile, true>(view) : is_wrong_single<Tile, false>(view);
}
template <class Tile>
bool is_wrong_of(Tile, const GemmView&) {
  return true;  // another kind
}

int count_wrong(std::mt19937& random, GemmTile tile, bool rows_contiguous, int most_b, int cases) {
  int wrong = 0;
  for (int at = 0; at < cases; ++at) {
    const GemmView view = any_view(random, rows_contiguous, most_b);
    wrong += with_gemm_tile(tile, view, [&](auto chosen) { return is_wrong_of(chosen, view); });
  }
  const char* const layout = rows_contiguous ? "n contiguous" : "r contiguous";
  std::printf("%d r, %d blocks, %s: %d of %d wrong\n", tile.columns, tile.blocks, layout, wrong, cases);
  return wrong;
}

int main(int count, char** arguments) {
  const int cases = count > 1 ? std::atoi(arguments[1]) : 20;
  std::mt19937 random(count > 2 ? static_cast<unsigned>(std::atoi(arguments[2])) : 0);
  int all = 0;
  for (const int columns : {64, 96, 128, 192}) all += count_wrong(random, {GemmHold::wide, columns}, true, 420, cases);
  for (const auto& [columns, blocks] : {std::pair{48, 2}, {64, 1}, {64, 2}, {96, 1}, {96, 2}, {128, 1}, {192, 1}})
    for (const bool rows_contiguous : {true, false})
      all += count_wrong(random, {GemmHold::single, columns, blocks}, rows_contiguous, columns % 64 ? columns : 420,
                         cases);
  for (const int d : {2, 3, 4, 6, 8}) {
    int wrong = 0;
    for (int at = 0; at < cases; ++at)
      wrong += with_spread(d, true,
                           [&](auto planes) { return is_wrong_of_spreading<decltype(planes)::value>(random, at % 4); });
    std::printf("W of %d planes spread: %d of %d wrong\n", d, wrong, cases);
    all += wrong;
  }
  for (const int columns : {128, 192}) {
    int wrong = 0;
    for (int at = 0; at < cases; ++at)
      wrong +=
          columns == 128 ? is_wrong_resident<ResidentTile<128>>(random) : is_wrong_resident<ResidentTile<192>>(random);
    std::printf("tiles of blocks that stay, %d r: %d of %d wrong\n", columns, wrong, cases);
    all += wrong;
  }
  for (const bool teams : {false, true}) {
    int wrong = 0;
    for (int at = 0; at < cases; ++at)
      wrong += teams ? is_wrong_order<StreamedOf<256>>(random) : is_wrong_order<AlternatingTile<128, 5, false>>(random);
    std::printf("tiles of pairs that stay, %s: %d of %d wrong\n", teams ? "in teams" : "all together", wrong, cases);
    all += wrong;
  }
  for (const Way way : {Way::batch_last, Way::batch_first, Way::between_passes}) {
    int wrong = 0;
    for (int at = 0; at < cases; ++at) wrong += is_wrong_view(way, random);
    const char* name = way == Way::batch_last    ? "batch_last"
                       : way == Way::batch_first ? "batch_first"
                                                 : "between passes";
    std::printf("views of a product, %s: %d of %d wrong\n", name, wrong, cases);
    all += wrong;
  }
  return all > 0;
}
