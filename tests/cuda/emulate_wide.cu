// Follows the boxes of Y of gemm's wide tiles on the CPU, with the kernel's own arithmetic: that threads store each sum
// where the copy engine takes it from, eight rows at a time to different banks, and that each number of Y is written
// once, from where it should come, and nothing else.
//
// Needs nvcc but no GPU.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "../../ksmm/csrc/cuda/hopper/gemm_launch.cuh"

using namespace ksmm;
using namespace ksmm::hopper;

constexpr int64_t nothing = -1;  // outside of a tensor
constexpr int unknown = -1;      // what no thread has stored

GemmView any_view(std::mt19937& random) {
  const auto any = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)) + 1; };
  GemmView view = {};
  view.rows_contiguous = true;
  view.groups_i = any(2), view.groups_j = any(3), view.b = any(420);
  view.rows = any(2) == 1 ? 8 * any(70) : gemm_run * any(4);  // the copy engine takes multiples of 16 bytes
  view.y_strides = {view.b * view.groups_j * view.rows, view.rows, 1, view.groups_j * view.rows};
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
    for (int column = 0; column < gemm_part; column += 16)
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

template <class Tile>
bool is_wrong(const GemmView& view) {
  WideTask task;
  task.rows = static_cast<int>(view.rows), task.b = static_cast<int>(view.b);
  task.groups_j = static_cast<int>(view.groups_j);
  count_tiles<Tile, rows_of_pair>(&task, view);
  const WideBoxes boxes = boxes_of_wide<Tile>(view);
  std::vector<int> box(Tile::box_bytes / 2, unknown), written(view.groups_i * view.b * view.groups_j * view.rows);
  if (put<Tile>(box)) return true;
  for (int tile = 0; tile < task.tiles; ++tile)
    for (int rank = 0; rank < Tile::cluster; ++rank) {
      const PairPlace<Tile> place(task, tile, rank);
      const bool run = WideOutlet<float16, Tile>::is_run(task, place.n);
      const TensorBox& tensor = run ? boxes.runs : boxes.rows;
      for (int r0 = place.r; r0 < place.r + Tile::columns && place.n < task.rows; r0 += gemm_part)
        for (int at = 0; at < tensor.box[0] * gemm_part; ++at) {
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

template <int COLUMNS, int STAGES, bool WIDE>
bool is_wrong_of(AlternatingTile<COLUMNS, STAGES, WIDE>, const GemmView& view) {
  if constexpr (WIDE) return is_wrong<AlternatingTile<COLUMNS, STAGES, WIDE>>(view);
  return true;
}
template <class Tile>
bool is_wrong_of(Tile, const GemmView&) {
  return true;  // no wide tile
}

int main(int count, char** arguments) {
  const int cases = count > 1 ? std::atoi(arguments[1]) : 20;
  std::mt19937 random(count > 2 ? static_cast<unsigned>(std::atoi(arguments[2])) : 0);
  int all = 0;
  for (const int columns : {64, 96, 128, 192}) {
    int wrong = 0;
    for (int at = 0; at < cases; ++at) {
      const GemmView view = any_view(random);
      wrong += with_gemm_tile({GemmHold::wide, columns}, [&](auto tile) { return is_wrong_of(tile, view); });
    }
    std::printf("%d r: %d of %d wrong\n", columns, wrong, cases);
    all += wrong;
  }
  return all > 0;
}
