// Launches the planes kernel; instantiated in a file for each dtype, so that the dtypes compile side by side.
#pragma once

#include "overlap.cuh"
#include "planes_kernel.cuh"
#include "planes_launch.cuh"

namespace ksmm::hopper {

// How long X stays in the L2 cache: where X and Y are much larger than it, up to four planes are faster with X that
// leaves last, and more of them hardly (docs/cache.md, "Planes").
inline Keep keep_of_planes(const Problem& problem) {
  const int64_t features = problem.a * (problem.b + problem.c) * problem.d;
  return problem.d <= 4 && 2 * features * problem.batch > (192 << 20) ? Keep::last_out : Keep::normal;
}

// Tiles of these operands, on so many clusters at most. So many blocks are launched together: those of a cluster, or
// two that are none.
template <class T, class Tile>
cudaError_t launch_tiles(const Problem& problem, const Operands& operands, const PlanesStages& shape,
                         const void* stages, bool beside, int clusters, int together, cudaStream_t stream) {
  CUtensorMap x, weight = {}, y = {};
  cudaError_t error =
      describe_tensor(&x, operands.x, problem.dtype, planes_x<Tile>(problem, operands), Tile::row_bytes);
  if (error != cudaSuccess) return error;
  if (stages == nullptr)
    error = describe_tensor(&weight, operands.weight, problem.dtype, planes_weight<Tile>(problem, operands),
                            Tile::weight_row_bytes);
  if (error != cudaSuccess) return error;
  if (Tile::staged)
    error = describe_tensor(&y, operands.y, problem.dtype, planes_y<Tile>(problem), Tile::buffered ? 128 : 0);
  if (error != cudaSuccess) return error;
  const PlanesTiles<Tile> tiles(problem);
  PlanesTask task = {static_cast<uint16_t*>(operands.y), static_cast<const uint16_t*>(operands.bias),
                     static_cast<const char*>(stages),   problem.batch,
                     static_cast<int>(problem.a),        static_cast<int>(problem.b),
                     static_cast<int>(problem.c),        static_cast<int>(problem.d),
                     static_cast<int>(shape.tiles_r),    beside};
  task.x_keep = keep_of_planes(problem);
  task.set_tiles(tiles.along_r, tiles.along_j, tiles.along_n, tiles.all);
  const int64_t blocks = parts_of(Tile::cluster * std::min<int64_t>(tiles.all, clusters), together) * together;
  return launch_overlapping(planes_kernel<T, Tile>, blocks, Tile::threads, Tile::shared_bytes, together, stream, task,
                            x, weight, y);
}

template <class T, class Tile>
cudaError_t launch_planes(const Problem& problem, const Operands& operands, const void* stages, const Machine& machine,
                          cudaStream_t stream) {
  const PlanesStages shape = planes_stages<Tile>(problem);
  const int clusters = clusters_of<Tile>(machine);
  if constexpr (Tile::has_beside) {
    const RowsBeside rows = rows_beside<Tile>(problem, machine);
    if (rows.beside > 0) {
      Problem first = problem, last = problem;
      first.batch -= rows.beside, last.batch = rows.beside;
      Operands of_last = operands;
      of_last.x = static_cast<const uint16_t*>(operands.x) + first.batch * operands.x_stride;
      of_last.y = static_cast<uint16_t*>(operands.y) + first.batch * problem.a * problem.b * problem.d;
      const cudaError_t error =
          launch_tiles<T, Tile>(first, operands, shape, stages, false, clusters, Tile::cluster, stream);
      if (error != cudaSuccess) return error;
      return launch_tiles<T, typename Tile::Pair>(last, of_last, shape, stages, true, rows.pairs, 2, stream);
    }
  }
  const int together = are_launched_by_two<Tile>(problem, machine) ? 2 : Tile::cluster;
  return launch_tiles<T, Tile>(problem, operands, shape, stages, false, clusters, together, stream);
}

}  // namespace ksmm::hopper
