// Barriers in shared memory (mbarrier), clusters of blocks, and the registers of a warpgroup. Compute capability 9.0.
#pragma once

#include "../bytes.cuh"
#include "../named_barrier.cuh"

namespace ksmm::hopper {

// A phase of a barrier completes when `arrivals` threads have arrived and all bytes that were announced have come.
// The phases alternate: 0, 1, 0, ... A wait for the phase before the first returns at once.
struct Barrier {
  uint64_t state;

  __device__ void init(uint32_t arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(this)), "r"(arrivals));
  }
  // The compiler does not wait for reads of shared memory before, which the copy engine may overtake: the thread must
  // have what it read (docs/planes.md, "What is given back").
  __device__ void arrive() {
    asm volatile("mbarrier.arrive.release.cta.shared.b64 _, [%0];" ::"r"(shared_address(this)) : "memory");
  }
  // Arrives once the copies that this thread has begun, by cp.async, are there; counts as one of those that arrive.
  __device__ void arrive_when_copied() {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(this)) : "memory");
  }
  // Arrives at the same barrier of a block of the cluster. Release at the scope of the cluster, which the copy engine
  // does not need (nothing was written), would cost a fence of device memory: in the gemm kernel a fifth of the time.
  __device__ void arrive_at(uint32_t block) {
    asm volatile(
        "{.reg .b32 remote;\n"
        "mapa.shared::cluster.u32 remote, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [remote];}" ::"r"(shared_address(this)),
        "r"(block)
        : "memory");
  }
  // The same after writing to shared memory, which the block reads once it has waited.
  __device__ void publish_at(uint32_t block) {
    asm volatile(
        "{.reg .b32 remote;\n"
        "mapa.shared::cluster.u32 remote, %0, %1;\n"
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];}" ::"r"(shared_address(this)),
        "r"(block)
        : "memory");
  }
  // Arrives, and announces bytes that asynchronous copies will bring.
  __device__ void arrive_expecting(uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(this)), "r"(bytes)
                 : "memory");
  }
  __device__ void wait(uint32_t phase) {
    asm volatile(
        "{.reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
        "@done bra ready;\n"
        "bra again;\n"
        "ready:}" ::"r"(shared_address(this)),
        "r"(phase)
        : "memory");
  }
  // As wait, where other blocks of the cluster arrive.
  __device__ void wait_for_cluster(uint32_t phase) {
    asm volatile(
        "{.reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
        "@done bra ready;\n"
        "bra again;\n"
        "ready:}" ::"r"(shared_address(this)),
        "r"(phase)
        : "memory");
  }
};

// Makes initialised barriers known to the copy engine and to the cluster; a barrier of the block (cluster) must follow.
__device__ inline void publish_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// Which slot of a ring of SLOTS is next, and in which phase it is.
template <int SLOTS>
struct Ring {
  int slot = 0;
  uint32_t phase = 0;
  __device__ void advance() {
    if (++slot == SLOTS) slot = 0, phase ^= 1;
  }
  __device__ void skip(int count) {
    slot += count;
    phase ^= slot / SLOTS % 2, slot %= SLOTS;
  }
};

// A ring whose length is known when the kernel is launched.
struct VariableRing {
  int slots, slot = 0;
  uint32_t phase = 0;
  __device__ void advance() {
    if (++slot == slots) slot = 0, phase ^= 1;
  }
  __device__ void skip(int count) {
    for (slot += count; slot >= slots; slot -= slots) phase ^= 1;
  }
  __device__ int last() const { return slot == 0 ? slots - 1 : slot - 1; }
};

// synchronize() that says whether one of the threads said yes.
__device__ inline bool synchronize_or(int number, int threads, bool yes) {
  uint32_t any;
  asm volatile(
      "{.reg .pred yes, any;\n"
      "setp.ne.u32 yes, %3, 0;\n"
      "barrier.cta.red.or.pred any, %1, %2, yes;\n"
      "selp.u32 %0, 1, 0, any;}"
      : "=r"(any)
      : "r"(number), "r"(threads), "r"(static_cast<uint32_t>(yes))
      : "memory");
  return any != 0;
}
// Counts as one that has come there, and goes on.
__device__ inline void arrive(int number, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// Which warpgroup of the block this is: the same in a warp, which the compiler learns by the shuffle. It keeps what
// depends on it in uniform registers then, where the matrix units want the addresses of their operands.
__device__ inline int warpgroup_of_block() { return __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0); }

__device__ inline uint32_t rank_in_cluster() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
// Reads 16 bytes of shared memory.
__device__ inline void load_own(uint32_t address, uint32_t (&words)[4]) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(address)
               : "memory");
}
// The same of another block of the cluster, at the place of `own` in one's own.
__device__ inline void load_from(uint32_t block, uint32_t own, uint32_t (&words)[4]) {
  asm volatile(
      "{.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %4, %5;\n"
      "ld.shared::cluster.v4.b32 {%0, %1, %2, %3}, [remote];}"
      : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
      : "r"(own), "r"(block)
      : "memory");
}
// Sends 16 bytes to another block of the cluster, at the place of `own` in one's own, and onto the same barrier there.
__device__ inline void send_to(uint32_t block, uint32_t own, const uint4& words, Barrier& barrier) {
  asm volatile(
      "{.reg .b32 remote, signal;\n"
      "mapa.shared::cluster.u32 remote, %0, %2;\n"
      "mapa.shared::cluster.u32 signal, %1, %2;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [remote], {%3, %4, %5, %6}, [signal];}" ::"r"(own),
      "r"(shared_address(&barrier)), "r"(block), "r"(words.x), "r"(words.y), "r"(words.z), "r"(words.w)
      : "memory");
}
__device__ inline void synchronize_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// The same in two, where nothing was written before.
__device__ inline void arrive_in_cluster() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
__device__ inline void wait_for_cluster() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// What a block was launched with; a warpgroup that wants more than the others have handed back waits for ever.
constexpr int registers_at_launch(int threads, int blocks = 1) {  // blocks of a multiprocessor
  return 65536 / (threads * blocks) / 8 * 8 * threads;
}
template <int GROWING_THREADS, int GROWN, int SHRINKING_THREADS, int SHRUNK, int BLOCKS = 1>
constexpr bool registers_suffice = GROWING_THREADS * GROWN + SHRINKING_THREADS * SHRUNK <=
                                   registers_at_launch(GROWING_THREADS + SHRINKING_THREADS, BLOCKS);

// Hands registers of the calling warpgroup back, or takes some; needs __launch_bounds__(threads, blocks).
template <int REGISTERS>
__device__ inline void shrink_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS>
__device__ inline void grow_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

}  // namespace ksmm::hopper
