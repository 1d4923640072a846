// Follows tiles, operands and sums of the exchange kernels on the CPU, with the kernels' own arithmetic: that every
// tile is taken once, and that every element goes where the matrix units, or Y, expect it.
//
// Needs nvcc but no GPU.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "../../ksmm/csrc/cuda/hopper/exchange_launch.cuh"

using namespace ksmm;
using namespace ksmm::hopper;

constexpr ExchangeShape shapes[] = {
    {ExchangeSource::interleaved, 64, 16},  {ExchangeSource::interleaved, 96, 16},
    {ExchangeSource::interleaved, 128, 16}, {ExchangeSource::planes, 64, 16},
    {ExchangeSource::planes, 96, 16},       {ExchangeSource::planes, 128, 16},
    {ExchangeSource::planes, 64, 24},
};

// Eight neighbours of a row, as a thread reads them.
void read_words(const std::vector<uint16_t>& memory, int64_t byte, uint32_t (&words)[4]) {
  std::memcpy(words, &memory.at(static_cast<size_t>(byte / 2 + 7)) - 7, 16);
}

uint16_t element(const uint4& words, int at) {
  uint16_t elements[8];
  std::memcpy(elements, &words, 16);
  return elements[at];
}

// Whether the tiles of a random problem are all tiles, each once.
template <class Tile>
bool tiles_are_wrong(std::mt19937& random) {
  const auto any = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)) + 1; };
  GemmView view = {};
  view.b = any(600), view.c = any(1200), view.groups_j = Tile::group * any(6), view.groups_i = any(3);
  ExchangeTask task;
  task.gemm.row_tiles = any(20), task.groups = static_cast<int>(view.groups_j / Tile::group);
  task.gemm.column_tiles = static_cast<int>(parts_of(view.b, Tile::columns));
  task.near_rows = near_rows(view, task.gemm.column_tiles);
  const int columns = task.gemm.column_tiles, rows = task.gemm.row_tiles, groups = task.groups;
  const int tiles = static_cast<int>(view.groups_i) * columns * rows * groups;
  std::vector<int> seen(static_cast<size_t>(tiles));
  for (int tile = 0; tile < tiles; ++tile) {
    const ExchangePlace<Tile> place(task, tile);
    const int r = place.r / Tile::columns, n = place.n / Tile::rows, j = place.j / Tile::group;
    if (r >= columns || n >= rows || j >= groups || place.i >= view.groups_i) return true;
    ++seen[static_cast<size_t>(((place.i * columns + r) * rows + n) * groups + j)];
  }
  for (const int times : seen)
    if (times != 1) return true;
  return false;
}

// Whether a sum that some block keeps reaches another place of Y than its own, or none, or a place twice.
template <class Tile>
bool sums_are_wrong(std::mt19937& random) {
  std::vector<std::vector<uint16_t>> kept(exchange_cluster, std::vector<uint16_t>(Tile::tile_bytes / 2));
  std::vector<uint16_t> sums(static_cast<size_t>(Tile::group) * Tile::rows * Tile::columns);
  const auto sum = [&](int j, int n, int r) -> uint16_t& {
    return sums[(static_cast<size_t>(j) * Tile::rows + n) * Tile::columns + r];
  };
  for (int j = 0; j < Tile::group; ++j)
    for (int n = 0; n < Tile::rows; ++n)
      for (int r = 0; r < Tile::columns; ++r) {
        sum(j, n, r) = static_cast<uint16_t>(random());
        const uint32_t byte = place_of_sums<Tile>(j % Tile::planes, n, r / 8) + r % 8 * 2;
        kept[static_cast<size_t>(j / Tile::planes)].at(byte / 2) = sum(j, n, r);
      }
  std::vector<int> written(sums.size());
  for (int block = 0; block < exchange_cluster; ++block)
    for (int index = 0; index < ExchangeItem<Tile>::count; ++index) {
      const ExchangeItem<Tile> item(index);
      const int n = block * Tile::own_rows + item.n;
      uint32_t planes[8][4];
      for (int at = 0; at < 8; ++at) {
        const int plane = item.part * 8 + at;
        read_words(kept[static_cast<size_t>(plane / Tile::planes)],
                   place_of_sums<Tile>(plane % Tile::planes, n, item.chunk), planes[at]);
      }
      for (int r = 0; r < 8; ++r)
        for (int at = 0; at < 8; ++at) {
          uint16_t& wanted = sum(item.part * 8 + at, n, item.chunk * 8 + r);
          if (element(column_of(planes, r), at) != wanted) return true;
          ++written[static_cast<size_t>(&wanted - sums.data())];
        }
    }
  for (const int times : written)
    if (times != 1) return true;
  return false;
}

// Whether an operand that the blocks send each other differs from what the matrix instruction is told of it.
template <class Tile>
bool operands_are_wrong(std::mt19937& random) {
  std::vector<std::vector<uint16_t>> operand(exchange_cluster, std::vector<uint16_t>(Tile::operand_bytes / 2));
  std::vector<uint16_t> x(static_cast<size_t>(Tile::rows) * gemm_step * Tile::group);  // [n][k][j]
  for (uint16_t& each : x) each = static_cast<uint16_t>(random());
  for (int block = 0; block < exchange_cluster; ++block) {
    const auto first = x.begin() + block * Tile::raw_bytes / 2;
    const std::vector<uint16_t> raw(first, first + Tile::raw_bytes / 2);
    for (int thread = 0; thread < Tile::regroupers; ++thread) {
      const int k = thread / 2, part = thread % 2;
      uint32_t rows[8][4];
      for (int n = 0; n < 8; ++n) read_words(raw, place_of_raw(n, k, part), rows[n]);
      for (int plane = 0; plane < 8; ++plane) {
        const uint4 words = column_of(rows, plane);
        const size_t place = place_of_operand(plane % 2, static_cast<uint32_t>(block), k) / 2;
        for (int n = 0; n < 8; ++n)
          operand[static_cast<size_t>(part * 4 + plane / 2)].at(place + static_cast<size_t>(n)) = element(words, n);
      }
    }
  }
  // groups of 8 n are bytes_of_eight_rows apart, groups of 8 k 128 bytes, k 16 bytes (products.cuh)
  for (int j = 0; j < Tile::group; ++j)
    for (int n = 0; n < Tile::rows; ++n)
      for (int k = 0; k < gemm_step; ++k) {
        const int byte = j % 2 * gemm_box + n / 8 * bytes_of_eight_rows + k / 8 * 128 + k % 8 * 16 + n % 8 * 2;
        const size_t from = (static_cast<size_t>(n) * gemm_step + k) * Tile::group + j;
        if (operand[static_cast<size_t>(j / 2)].at(static_cast<size_t>(byte / 2)) != x[from]) return true;
      }
  return false;
}

template <int COLUMNS, int PLANES>
bool is_wrong(ExchangeTile<COLUMNS, PLANES>, std::mt19937& random) {
  using Tile = ExchangeTile<COLUMNS, PLANES>;
  return tiles_are_wrong<Tile>(random) || sums_are_wrong<Tile>(random);
}
template <int COLUMNS, int RAWS, int OPERANDS, int WEIGHTS>
bool is_wrong(RegroupTile<COLUMNS, RAWS, OPERANDS, WEIGHTS>, std::mt19937& random) {
  using Tile = RegroupTile<COLUMNS, RAWS, OPERANDS, WEIGHTS>;
  return tiles_are_wrong<Tile>(random) || sums_are_wrong<Tile>(random) || operands_are_wrong<Tile>(random);
}

int main(int count, char** arguments) {
  const int cases = count > 1 ? std::atoi(arguments[1]) : 20;
  std::mt19937 random(count > 2 ? static_cast<unsigned>(std::atoi(arguments[2])) : 0);
  int all = 0;
  for (const ExchangeShape& shape : shapes) {
    int wrong = 0;
    for (int at = 0; at < cases; ++at)
      wrong += with_exchange_tile(shape, [&](auto tile) { return is_wrong(tile, random); });
    std::printf("%s, %d r, %d j: %d of %d wrong\n", shape.source == ExchangeSource::planes ? "planes" : "interleaved",
                shape.columns, shape.group, wrong, cases);
    all += wrong;
  }
  return all > 0;
}
