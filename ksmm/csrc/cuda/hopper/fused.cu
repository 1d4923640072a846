// The chains that the fused kernel takes, and its launch.
#include <algorithm>
#include <cmath>

#include "chain_kernel.h"
#include "tensor_map.h"

#ifdef KSMM_SM90A
#include "fused_family.cuh"
#include "fused_kernel.cuh"
#endif

namespace ksmm::hopper {

#ifdef KSMM_SM90A

namespace {

// A tile of the kernel in which X stays, to the family.
template <class Tile>
struct Resident {
  struct Boxes {
    TensorBox x, inner, outer;
    Boxes(const Problem& first, const Operands& of_inner, const Problem& second, const Operands& of_outer) {
      const int64_t *rows = of_inner.weight_strides, *planes = of_outer.weight_strides;
      x = {3, {first.c, first.a, first.batch}, {1, first.c, of_inner.x_stride}, {fused_step, 1, Tile::n}};
      inner = {4,
               {first.c, first.b / Tile::j, Tile::j, first.a},
               {1, Tile::j * rows[1], rows[1], rows[0]},
               {fused_step, Tile::b / Tile::j, Tile::j, 1}};
      outer = {3, {second.c, second.b, Tile::j}, {1, planes[1], planes[3]}, {fused_step, Tile::outer_rows, 1}};
    }
  };

  // Where Z lies: it takes the place of the X that has been multiplied. shift: as in FusedTask, or -1 where it would
  // take the place of X that has not.
  static int shift_of_segments(const Problem& inner, const Problem& outer) {
    const int64_t boxes = parts_of(inner.c, fused_step), of_block = Tile::b / Tile::j;
    if (outer.c % 16 != 0) return -1;
    for (int shift = 0; shift <= 2; ++shift)  // Z of each block in the place of the block's X
      if (of_block == 16 << shift &&
          (Tile::splits == 1 ? Tile::b <= boxes * fused_step : Tile::b == boxes * fused_step))
        return shift;
    return Tile::splits == 1 && outer.c <= fused_step && Tile::j <= boxes ? 2 : -1;  // all in that of the first one
  }

  static int64_t slots_of(const Problem& inner, const Machine& machine) {
    const int64_t boxes = inner.a * parts_of(inner.c, fused_step);
    const int64_t room = machine.shared_limit - fused_extra_bytes - boxes * Tile::box_bytes;
    return boxes > fused_most_boxes ? 0 : std::min<int64_t>(room / Tile::slot_bytes, fused_most_slots);
  }

  static bool fits(const Problem& inner, const Problem& outer, const Machine& machine) {
    return outer.d == Tile::j && inner.b == Tile::b && outer.b % 8 == 0 && slots_of(inner, machine) >= 3 &&
           shift_of_segments(inner, outer) >= 0;
  }

  static bool takes(const Problem& inner, const Operands& of_inner, const Problem& outer, const Operands& of_outer,
                    const Machine& machine) {
    const auto aligned = [](const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 == 0; };
    if (!fits(inner, outer, machine)) return false;
    const Boxes boxes(inner, of_inner, outer, of_outer);
    return aligned(of_outer.y) && can_describe(of_inner.x, inner.dtype, boxes.x) &&
           can_describe(of_inner.weight, inner.dtype, boxes.inner) &&
           can_describe(of_outer.weight, inner.dtype, boxes.outer);
  }

  // Measured on an H200: 2 us before a tile's first product, 0.2 us a stage of the inner factor and 0.7 of the outer
  // one, a tenth more where all multiprocessors are at it.
  static double seconds(const Problem& inner, const Problem& outer, const Machine& machine) {
    const double inner_stages = static_cast<double>(inner.a * parts_of(inner.c, fused_step));
    const double outer_stages =
        static_cast<double>(parts_of(outer.b, Tile::outer_rows) * Tile::j * parts_of(outer.c, fused_step));
    const double tile = 2e-6 + 0.2e-6 * inner_stages + 0.7e-6 * outer_stages;
    const int64_t tiles = parts_of(inner.batch, Tile::n), rounds = parts_of(tiles, machine.multiprocessors);
    const double features = static_cast<double>(inner.a * inner.c + outer.b * outer.d);
    const double memory = 1.1 * 2 * features * static_cast<double>(inner.batch) / machine.memory_rate;
    return 3e-6 + std::max(memory, static_cast<double>(rounds) * tile * (tiles < machine.multiprocessors ? 1 : 1.1));
  }

  template <class T>
  static cudaError_t launch(const Problem& inner, const Operands& of_inner, const Problem& outer,
                            const Operands& of_outer, const Machine& machine, cudaStream_t stream) {
    const Boxes boxes(inner, of_inner, outer, of_outer);
    FusedTask task;
    cudaError_t error = describe_tensor(&task.x, of_inner.x, inner.dtype, boxes.x, fused_row);
    if (error == cudaSuccess)
      error = describe_tensor(&task.inner, of_inner.weight, inner.dtype, boxes.inner, fused_row);
    if (error == cudaSuccess)
      error = describe_tensor(&task.outer, of_outer.weight, inner.dtype, boxes.outer, fused_row);
    if (error != cudaSuccess) return error;
    task.bias = static_cast<const uint16_t*>(of_outer.bias), task.y = static_cast<uint16_t*>(of_outer.y);
    task.batch = inner.batch;
    task.b = static_cast<int>(outer.b), task.blocks = static_cast<int>(inner.a);
    task.inner_boxes = static_cast<int>(parts_of(inner.c, fused_step));
    task.outer_boxes = static_cast<int>(parts_of(outer.c, fused_step));
    task.segments = static_cast<int>(outer.c / 16);
    task.shift = shift_of_segments(inner, outer);
    task.slots = static_cast<int>(slots_of(inner, machine));
    task.tiles = parts_of(inner.batch, Tile::n);
    const int64_t blocks = std::min<int64_t>(task.tiles, machine.multiprocessors);
    const int64_t shared =
        fused_extra_bytes + task.blocks * task.inner_boxes * Tile::box_bytes + task.slots * Tile::slot_bytes;
    return launch_overlapping(fused_kernel<T, Tile>, blocks, Tile::threads, shared, 1, stream, task);
  }
};

using Family = FusedFamily<Resident<FusedTile<2, 64, 3, 1, 96>>, Resident<FusedTile<2, 48, 3, 1, 96>>,
                           Resident<FusedTile<8, 128, 1, 2, 64>>>;

}  // namespace

const ChainKernel fused = {Family::seconds, Family::multiply};

#else

const ChainKernel fused = no_chain_kernel;

#endif

}  // namespace ksmm::hopper
