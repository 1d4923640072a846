// Copies of boxes of a tensor between device memory and shared memory by the copy engine (TMA). Compute capability 9.0.
//
// One thread issues a copy. Coordinates are in elements, fastest dimension first, and may lie outside the tensor: zeros
// are read there, and nothing is written.
#pragma once

#include <cuda.h>

#include "barrier.cuh"

namespace ksmm::hopper {

// In which turn bytes leave the L2 cache: W last, which all blocks read again, and X and Y as measured (docs/cache.md
// and chains.md).
enum class Keep : uint64_t {
  normal = 0x1000000000000000,
  first_out = 0x12F0000000000000,
  last_out = 0x14F0000000000000
};

__device__ inline void prefetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// Contiguous bytes, a multiple of 16 at an address that is one.
__device__ inline void load_bytes(void* shared, const void* from, uint32_t bytes, Barrier& barrier, Keep keep) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
          "r"(shared_address(shared)),
      "l"(from), "r"(bytes), "r"(shared_address(&barrier)), "l"(static_cast<uint64_t>(keep))
      : "memory");
}

// Into the same place of every block of the cluster in `blocks` (a bit each), and onto the same barrier of each.
__device__ inline void load_bytes_for(uint16_t blocks, void* shared, const void* from, uint32_t bytes, Barrier& barrier,
                                      Keep keep) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [%0], [%1], "
      "%2, [%3], %4, %5;" ::"r"(shared_address(shared)),
      "l"(from), "r"(bytes), "r"(shared_address(&barrier)), "h"(blocks), "l"(static_cast<uint64_t>(keep))
      : "memory");
}

// clang-format off
__device__ inline void load(void* shared, const CUtensorMap& map, Barrier& barrier, Keep keep, int c0, int c1) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;"
               ::"r"(shared_address(shared)), "l"(&map), "r"(c0), "r"(c1), "r"(shared_address(&barrier)), "l"(static_cast<uint64_t>(keep)) : "memory");
}
__device__ inline void store(const CUtensorMap& map, const void* shared, int c0, int c1) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%1, {%2, %3}], [%0];"
               ::"r"(shared_address(shared)), "l"(&map), "r"(c0), "r"(c1) : "memory");
}
__device__ inline void load(void* shared, const CUtensorMap& map, Barrier& barrier, Keep keep, int c0, int c1, int c2) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3, %4}], [%5], %6;"
               ::"r"(shared_address(shared)), "l"(&map), "r"(c0), "r"(c1), "r"(c2), "r"(shared_address(&barrier)), "l"(static_cast<uint64_t>(keep)) : "memory");
}
// Into the same place of every block of the cluster in `blocks` (a bit each), and onto the same barrier of each.
__device__ inline void load_for(uint16_t blocks, void* shared, const CUtensorMap& map, Barrier& barrier, Keep keep, int c0, int c1, int c2) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [%0], [%1, {%2, %3, %4}], [%5], %6, %7;"
               ::"r"(shared_address(shared)), "l"(&map), "r"(c0), "r"(c1), "r"(c2), "r"(shared_address(&barrier)), "h"(blocks), "l"(static_cast<uint64_t>(keep)) : "memory");
}
__device__ inline void store(const CUtensorMap& map, const void* shared, int c0, int c1, int c2) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%1, {%2, %3, %4}], [%0];"
               ::"r"(shared_address(shared)), "l"(&map), "r"(c0), "r"(c1), "r"(c2) : "memory");
}
__device__ inline void load(void* shared, const CUtensorMap& map, Barrier& barrier, Keep keep, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3, %4, %5}], [%6], %7;"
               ::"r"(shared_address(shared)), "l"(&map), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(shared_address(&barrier)), "l"(static_cast<uint64_t>(keep)) : "memory");
}
// Into the same place of every block of the cluster in `blocks` (a bit each), and onto the same barrier of each.
__device__ inline void load_for(uint16_t blocks, void* shared, const CUtensorMap& map, Barrier& barrier, Keep keep, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [%0], [%1, {%2, %3, %4, %5}], [%6], %7, %8;"
               ::"r"(shared_address(shared)), "l"(&map), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(shared_address(&barrier)), "h"(blocks), "l"(static_cast<uint64_t>(keep)) : "memory");
}
// Asks for a box into the L2 cache, through which all of device memory is read and written: whoever loads the box later
// finds what was written meanwhile, so it may be asked for before kernels that write it are complete.
__device__ inline void prefetch_box(const CUtensorMap& map, Keep keep, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.prefetch.tensor.4d.L2.global.L2::cache_hint [%0, {%1, %2, %3, %4}], %5;"
               ::"l"(&map), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "l"(static_cast<uint64_t>(keep)) : "memory");
}
__device__ inline void store(const CUtensorMap& map, const void* shared, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%1, {%2, %3, %4, %5}], [%0];"
               ::"r"(shared_address(shared)), "l"(&map), "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory");
}
// clang-format on

// Makes what a thread wrote to shared memory visible to the copy engine and the matrix units; a barrier must follow.
__device__ inline void fence_for_engines() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ inline void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until all but PENDING of this thread's groups of stores have read shared memory: it may be written again, or
// given back at the kernel's end, which waits for the rest by itself.
template <int PENDING>
__device__ inline void wait_for_store_reads() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

// Waits until all of this thread's stores are complete.
__device__ inline void wait_for_stores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

}  // namespace ksmm::hopper
