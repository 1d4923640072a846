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

// A step of 8 k takes a tile that is alone so long, or its warps in turns as the multiply-adds of all tiles of a
// multiprocessor.
double seconds(const Problem& problem, const Machine& machine) {
  const auto [count, warps] = tiles_of(problem);
  const double steps = static_cast<double>(parts_of(problem.c, 8));
  const double share = std::max(1.0, static_cast<double>(count) / machine.multiprocessors);
  const bool elements = problem.layout == Layout::batch_last && problem.batch % 4 != 0;
  const double alone = 0.11e-6, of_warp = 2.0 * 32 * 128 * machine.multiprocessors / (0.8 * machine.float_rate);
  return 2.5e-6 + steps * std::max(alone, share * warps * of_warp) * (elements ? 1.5 : 1);
}

cudaError_t launch_small(const Problem& problem, const Operands& operands, const Machine& machine, const Workspace&,
                         cudaStream_t stream) {
  return with_small_strict_tile(problem, [&](auto choice) {
    using Tile = typename decltype(choice)::Tile;
    const auto kernel = strict_kernel<decltype(choice)::layout, Tile, true>;
    const Task<float> task = make_strict_task<Tile>(problem, operands);
    if (machine.overlaps)
      return hopper::launch_overlapping(kernel, task.tiles, Tile::threads, Tile::shared_bytes, 1, stream, task);
    return launch<float>(kernel, task, Tile::threads, Tile::shared_bytes, stream);
  });
}

constexpr Configuration family[] = {{"small strict", false, takes, seconds, launch_small}};

}  // namespace

Configurations small_strict_configurations() { return {family, 1}; }

}  // namespace ksmm
