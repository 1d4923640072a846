// The strict float32 kernel in small tiles, for products that have too few of the others for all multiprocessors: which
// it takes, and how long they take.
#include <algorithm>

#include "hopper/overlap.cuh"
#include "strict.cuh"
#include "strict_small.h"

namespace ksmm {
namespace {

// Of tiles for each multiprocessor: beyond that larger ones are as fast, which read less.
constexpr int64_t most_of_a_multiprocessor = 32;
// ... for which beginning while the kernel before ends gains: a twentieth to a tenth of the time. More of them crowd on
// the multiprocessors that have room first, and took up to one and a half times as long.
constexpr int64_t most_early = 6;

struct Tiles {
  int64_t count;
  int warps;  // of each
};

Tiles tiles_of(const Problem& problem) {
  return with_small_strict_tile(problem, [&](auto choice) {
    using Tile = typename decltype(choice)::Tile;
    const int64_t planes = parts_of(problem.d, Tile::j);
    return Tiles{problem.a * planes * parts_of(problem.batch, Tile::n) * parts_of(problem.b, Tile::r), Tile::warps};
  });
}

bool takes(const Problem& problem, const Operands&, const Machine& machine) {
  return problem.dtype == Dtype::float32 && problem.batch > 0 &&
         problem.batch <= most_of_a_multiprocessor * machine.multiprocessors * 32 &&
         tiles_of(problem).count <= most_of_a_multiprocessor * machine.multiprocessors;
}

// Fitted to 369 products of 21 patterns on an H200, 1 to 2,048 rows in both layouts, replayed from CUDA graphs: half of
// them within 6 %, nine of ten within 20 %. A step of 8 k takes a tile that is alone so long, or its warps in turns as
// the instructions of all tiles of a multiprocessor, of which those that transpose X one number at a time are many.
double seconds(const Problem& problem, const Machine& machine) {
  const auto [count, warps] = tiles_of(problem);
  const bool last = problem.layout == Layout::batch_last, elements = last && problem.batch % 4 != 0;
  const double rounds = static_cast<double>(parts_of(count, machine.multiprocessors)), share = rounds * warps;
  const double slower = 3.85e11 * machine.multiprocessors / machine.float_rate;  // than an H200
  const double alone = 0.18e-6 + 0.032e-6 * warps, of_all = share * (last ? 0.052e-6 : 0.074e-6);
  const double steps = static_cast<double>(parts_of(problem.c, 8)) * (elements ? 1.24 : 1);
  return 3.2e-6 + slower * (steps * std::max(alone, of_all) + 8e-9 * share);
}

cudaError_t launch_small(const Problem& problem, const Operands& operands, const Machine& machine, const Workspace&,
                         cudaStream_t stream) {
  return with_small_strict_tile(problem, [&](auto choice) {
    using Tile = typename decltype(choice)::Tile;
    const auto kernel = strict_kernel<decltype(choice)::layout, Tile, true>;
    const Task<float> task = make_strict_task<Tile>(problem, operands);
    const bool begins_early = task.tiles <= most_early * machine.multiprocessors;
    if (machine.overlaps)
      return hopper::launch_waiting(begins_early, kernel, task.tiles, Tile::threads, Tile::shared_bytes, 1, stream,
                                    task);
    return launch<float>(kernel, task, Tile::threads, Tile::shared_bytes, stream);
  });
}

constexpr Configuration family[] = {{"small strict", false, takes, seconds, launch_small}};

}  // namespace

Configurations small_strict_configurations() { return {family, 1}; }

}  // namespace ksmm
