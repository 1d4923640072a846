// Transposes many small matrices of 16-bit or 32-bit elements: how they are cut into blocks, and the launch.
#include <algorithm>
#include <type_traits>

#include "configuration.h"
#include "transpose_kernel.cuh"

namespace ksmm {
namespace {

using namespace transposition;

// How a task is cut: a block of so many threads takes `batch` whole matrices, or a tile of one.
struct Cut {
  int64_t threads, rows, columns, batch;
  int64_t down(const Transposition& of) const { return parts_of(of.rows, rows); }
  int64_t across(const Transposition& of) const { return parts_of(of.columns, columns); }
  int64_t blocks(const Transposition& of) const { return parts_of(of.matrices, batch) * down(of) * across(of); }
};

// Whole sides where they fit, so that what is read and written is contiguous; else pieces of 128 bytes or more.
Cut cut_for(const Transposition& of, int64_t threads) {
  const int64_t least = 128 / of.element_bytes, most = threads * bytes_of_thread(of.element_bytes) / of.element_bytes;
  int64_t rows = of.rows, columns = of.columns;
  while (rows * columns > most && std::max(rows, columns) > least) {
    int64_t& longer = rows > columns ? rows : columns;
    longer = longer > 2 * least ? parts_of(longer / 2, least) * least : least;
  }
  const bool whole = rows == of.rows && columns == of.columns;
  return {threads, rows, columns, whole ? std::max<int64_t>(1, most / (rows * columns)) : 1};
}

// The one that leaves the fewest threads without work: a side of 24 or 48 fills 192 of them, of 96 384.
Cut choose_cut(const Transposition& of) {
  Cut best = cut_for(of, 256);
  if (of.element_bytes == 4) return best;
  for (const int64_t threads : {192, most_threads}) {
    const Cut cut = cut_for(of, threads);
    if (cut.rows * cut.columns * of.element_bytes > threads * bytes_of_thread(of.element_bytes)) continue;
    if (cut.blocks(of) * cut.threads < best.blocks(of) * best.threads) best = cut;
  }
  return best;
}

int unit_of(const Transposition& of) {
  const auto fits = [&](int unit) {
    const auto aligned = [&](const void* address) {
      return reinterpret_cast<uintptr_t>(address) % (of.element_bytes * unit) == 0;
    };
    return of.rows % unit == 0 && of.columns % unit == 0 && aligned(of.source) && aligned(of.destination);
  };
  const int most = 16 / of.element_bytes;
  return fits(most) ? most : fits(most / 2) ? most / 2 : most / 4;
}

TransposeTask describe(const Transposition& of, const Cut& cut) {
  const int64_t of_word = word / of.element_bytes, words = parts_of(cut.rows, of_word), unit = unit_of(of);
  const int64_t pitch = (words % 2 == 1 ? words : words + 1) * of_word;
  return {of,
          SmallDivisor(cut.rows),
          SmallDivisor(cut.columns),
          static_cast<int>(cut.batch),
          static_cast<int>(pitch),
          static_cast<int>(cut.down(of)),
          static_cast<int>(cut.across(of)),
          Spread(parts_of(cut.columns, unit), std::max<int64_t>(1, cut.batch * cut.rows / 2)),
          Spread(parts_of(cut.rows, unit), cut.batch * cut.columns)};
}

int64_t shared_bytes(const TransposeTask& task) {
  return static_cast<int64_t>(task.batch) * task.tile_columns.value * task.pitch * task.of.element_bytes;
}

// Calls run(Element(), U) with the number of elements that are read and written at once.
template <class Element, class Run>
auto with_unit_of(const Transposition& of, Run run) {
  constexpr int most = 16 / sizeof(Element);
  const int unit = unit_of(of);
  if (unit == most) return run(Element(), std::integral_constant<int, most>());
  if (unit == most / 2) return run(Element(), std::integral_constant<int, most / 2>());
  return run(Element(), std::integral_constant<int, most / 4>());
}
template <class Run>
auto with_unit(const Transposition& of, Run run) {
  return of.element_bytes == 2 ? with_unit_of<uint16_t>(of, run) : with_unit_of<uint32_t>(of, run);
}

}  // namespace

bool can_transpose(const Transposition& of) {
  const auto aligned = [](const void* address) { return reinterpret_cast<uintptr_t>(address) % 4 == 0; };
  const bool pairs =
      of.rows * of.columns % 2 == 0 && (of.rows <= 64 || of.rows % 2 == 0) && (of.columns <= 64 || of.columns % 2 == 0);
  return aligned(of.source) && aligned(of.destination) && (of.element_bytes == 4 || (of.element_bytes == 2 && pairs));
}

cudaError_t transpose(const Transposition& of, cudaStream_t stream) {
  const Cut cut = choose_cut(of);
  const TransposeTask task = describe(of, cut);
  return with_unit(of, [&](auto element, auto unit) {
    return hopper::launch_overlapping(transpose_kernel<decltype(element), unit>, cut.blocks(of),
                                      static_cast<int>(cut.threads), shared_bytes(task), 1, stream, task);
  });
}

bool transpose_cuda(int element_bytes, const void* source, void* destination, int64_t matrices, int64_t rows,
                    int64_t columns, void* stream, int* error) {
  const Transposition task = {element_bytes, source, destination, matrices, rows, columns};
  Machine machine;
  *error = current_machine(&machine);
  if (*error == cudaSuccess && (!machine.overlaps || !can_transpose(task))) return false;
  if (*error == cudaSuccess) *error = transpose(task, static_cast<cudaStream_t>(stream));
  return true;
}

}  // namespace ksmm
