// Runs both steps of the transposition on the CPU, block by block and thread by thread, and looks where each element
// went.
//
// Needs nvcc but no GPU. Built with AddressSanitizer (test_emulation.py does) it also proves that nothing outside the
// operands, and of shared memory, is read or written: each lives in an allocation of exactly its size.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "../../ksmm/csrc/cuda/machine.cu"
#include "../../ksmm/csrc/cuda/transpose.cu"

using namespace ksmm;

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<char, Free>;

// Of exactly so many bytes, aligned to 16.
Memory allocate(int64_t bytes) { return Memory(static_cast<char*>(std::malloc(static_cast<size_t>(bytes)))); }

template <class Element>
int check(const Transposition& shape, std::mt19937& random) {
  const int64_t size = shape.matrices * shape.rows * shape.columns, shift = random() % 4 == 0 ? 4 : 0;  // bytes
  const Memory from = allocate(size * sizeof(Element) + shift), to = allocate(size * sizeof(Element) + shift);
  Transposition of = shape;
  of.source = from.get() + shift, of.destination = to.get() + shift;
  if (!can_transpose(of)) return -1;
  auto* const source = reinterpret_cast<Element*>(from.get() + shift);
  auto* const destination = reinterpret_cast<Element*>(to.get() + shift);
  for (int64_t e = 0; e < size; ++e) source[e] = static_cast<Element>(random()), destination[e] = ~source[e];

  const Cut cut = choose_cut(of);
  const TransposeTask task = describe(of, cut);
  const auto threads = static_cast<int>(cut.threads);
  for (int64_t block = 0; block < cut.blocks(of); ++block) {
    const Memory shared = allocate(shared_bytes(task));
    const transposition::Tile tile = transposition::tile_of(task, block);
    with_unit(of, [&](auto element, auto unit) {
      using E = decltype(element);
      for (int t = 0; t < threads; ++t) transposition::read<E, unit>(shared.get(), task, tile, t, threads);
      for (int t = 0; t < threads; ++t) transposition::write<E, unit>(shared.get(), task, tile, t, threads);
    });
  }
  for (int64_t m = 0; m < of.matrices; ++m)
    for (int64_t p = 0; p < of.rows; ++p)
      for (int64_t q = 0; q < of.columns; ++q)
        if (destination[(m * of.columns + q) * of.rows + p] != source[(m * of.rows + p) * of.columns + q]) return 1;
  return 0;
}

int main(int count, char** arguments) {
  const int cases = count > 1 ? std::atoi(arguments[1]) : 200;
  std::mt19937 random(count > 2 ? static_cast<unsigned>(std::atoi(arguments[2])) : 0);
  const int64_t sides[] = {1,  2,  3,  4,  7,  8,   12,  16,  20,  24,  33,  40,  48,
                           62, 64, 72, 96, 98, 100, 128, 136, 192, 250, 256, 384, 1000};
  const auto side = [&] { return sides[random() % (sizeof sides / sizeof *sides)]; };
  int wrong = 0;
  for (const int bytes : {2, 4}) {
    int done = 0, failed = 0;
    while (done < cases) {
      const Transposition shape = {bytes, nullptr, nullptr, static_cast<int64_t>(random() % 9 + 1), side(), side()};
      const int result = bytes == 2 ? check<uint16_t>(shape, random) : check<uint32_t>(shape, random);
      if (result < 0) continue;
      ++done, failed += result;
      if (result > 0) std::printf("%d bytes, %ld of %ld x %ld\n", bytes, shape.matrices, shape.rows, shape.columns);
    }
    std::printf("%d bytes: %d of %d wrong\n", bytes, failed, cases);
    wrong += failed;
  }
  return wrong == 0 ? 0 : 1;
}
