// The strict float32 kernel in small tiles, for products that have too few of the others for all multiprocessors: which
// it takes, and how long they take.
#include <algorithm>
#include <iterator>

#include "hopper/overlap.cuh"
#include "strict.cuh"
#include "strict_small.h"
#include "strict_small_kernel.cuh"

namespace ksmm {
namespace {

// Of tiles for each multiprocessor: beyond that larger ones are as fast, which read less.
constexpr int64_t most_of_a_multiprocessor = 32;
// ... for which beginning while the kernel before ends gains: a twentieth to a tenth of the time. More of them crowd on
// the multiprocessors that have room first, and took up to one and a half times as long.
constexpr int64_t most_early = 6;
// Of k that parts share: shorter sums have few roundings, and parts might have larger ones than sums in one.
constexpr int64_t least_of_parts = 64;

// Microseconds on an H200, replayed from CUDA graphs. Fitted to 932 products of 20 patterns, 1 to 2,048 rows in both
// layouts: half of them within 6 %.
struct Times {
  double alone;       // a step of a tile that has a multiprocessor for itself: of 8 k for each part
  double warp;        // a step of each warp where several share one
  double fixed, out;  // of all, and of each warp's sums on their way out
};

template <int PARTS>
Times times_of(const Problem& problem) {
  constexpr int at = PARTS == 1 ? 0 : PARTS == 2 ? 1 : 2;
  constexpr Times last[] = {{0.256, 0.0478, 0.74, 0.052}, {0.219, 0.0471, 0.66, 0.078}, {0.07, 0.0448, 0.48, 0.058}};
  constexpr Times first_of_one[] = {{0.254, 0.0507, 0, 0.27}, {0.268, 0.0478, 0.2, 0.129}, {0, 0.051, 0.34, 0.047}};
  constexpr Times first_of_two[] = {{0.287, 0.0788, 0.65, 0.004}, {0.29, 0.0568, 0.58, 0.109}, {0, 0.0549, 0.2, 0.133}};
  if (problem.layout == Layout::batch_last) return last[at];
  if (problem.d == 1) return first_of_one[at];
  if (problem.d == 2) return first_of_two[at];
  return {0.188 + 0.0335 * strict_group(problem.d), 0.0776, 0.78, 0};
}

// In blocks of PARTS that share the steps of k.
template <int PARTS>
struct Small {
  struct Tiles {
    int64_t count;
    int warps;  // of each part
    bool low;   // whether they have 16 n
  };
  static Tiles tiles_of(const Problem& problem, const Machine& machine) {
    return with_small_strict_tile<PARTS>(problem, machine.multiprocessors, [&](auto choice) {
      using Tile = typename decltype(choice)::Tile;
      const int64_t planes = parts_of(problem.d, Tile::j);
      return Tiles{problem.a * planes * parts_of(problem.batch, Tile::n) * parts_of(problem.b, Tile::r), Tile::warps,
                   Tile::n == 16};
    });
  }

  static bool takes(const Problem& problem, const Operands&, const Machine& machine) {
    if (problem.dtype != Dtype::float32 || problem.batch <= 0) return false;
    if (PARTS > 1 && problem.c < least_of_parts) return false;
    if (PARTS > 1 && problem.layout == Layout::batch_first && problem.d > 2) return false;
    const int64_t most = most_of_a_multiprocessor * machine.multiprocessors;
    return problem.batch <= 32 * most && tiles_of(problem, machine).count <= most / PARTS;
  }

  static double seconds(const Problem& problem, const Machine& machine) {
    const Tiles tiles = tiles_of(problem, machine);
    const Times times = times_of<PARTS>(problem);
    const bool elements = problem.layout == Layout::batch_last && problem.batch % 4 != 0;  // X comes number by number
    const auto warps = static_cast<double>(parts_of(tiles.count, machine.multiprocessors) * tiles.warps * PARTS);
    const double steps =
        static_cast<double>(parts_of(problem.c, 8 * PARTS)) * (elements ? 1.3 : 1) * (tiles.low ? 1.2 : 1);
    const double slower = 3.85e11 * machine.multiprocessors / machine.float_rate;  // than an H200
    const double multiplied = steps * std::max(times.alone, warps * times.warp) + warps * times.out;
    return 3.2e-6 + 1e-6 * (times.fixed + slower * multiplied);
  }

  static cudaError_t launch_tiles(const Problem& problem, const Operands& operands, const Machine& machine,
                                  const Workspace&, cudaStream_t stream) {
    return with_small_strict_tile<PARTS>(problem, machine.multiprocessors, [&](auto choice) {
      using Tile = typename decltype(choice)::Tile;
      using Block = SmallStrict<Tile, PARTS>;
      const auto kernel = small_strict_kernel<decltype(choice)::layout, Tile, PARTS>;
      const Task<float> task = make_strict_task<Tile>(problem, operands);
      const bool begins_early = PARTS * task.tiles <= most_early * machine.multiprocessors;
      if (machine.overlaps)
        return hopper::launch_waiting(begins_early, kernel, task.tiles, Block::threads, Block::shared_bytes, 1, stream,
                                      task);
      return launch<float>(kernel, task, Block::threads, Block::shared_bytes, stream);
    });
  }

  static constexpr Configuration as(const char* name) { return {name, false, takes, seconds, launch_tiles}; }
};

constexpr Configuration family[] = {Small<1>::as("small strict"), Small<2>::as("small strict 2 parts"),
                                    Small<4>::as("small strict 4 parts")};

}  // namespace

Configurations small_strict_configurations() { return {family, static_cast<int>(std::size(family))}; }

}  // namespace ksmm
