// The warpgroup matrix instructions of compute capability 9.0 (wgmma), for every number of columns that is used here.
//
// Four consecutive warps multiply a 64 x K by a K x N matrix, K = 16 (16-bit types) or 8 (TF32). Warp w of the four has
// the sums of rows 16 w .. 16 w + 15; with g = lane / 4 and t = lane % 4, sums[4 q + 2 h + e] belongs to row
// 16 w + g + 8 h and column 8 q + 2 t + e. The instructions run asynchronously: neither the sums nor the registers of
// `rows` may be touched between begin_products() and wait_for_products().
//
// PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions".
#pragma once

#include <cstdint>
#include <type_traits>

#include "../number.cuh"

namespace ksmm::hopper {

// How rows of 32, 64 or 128 bytes are swizzled in shared memory: the 16-byte chunk c of the row at byte address r is at
// chunk c XOR (r / 128 % n), n = 2, 4 or 8. What TMA writes with the same mode.
enum class Swizzle : uint64_t { none = 0, bytes_128 = 1, bytes_64 = 2, bytes_32 = 3 };

// Describes an operand in shared memory, at an address aligned to the swizzle's period (256, 512 or 1,024 bytes).
//
// Operands with K contiguous: rows are as long as the swizzle says, and 8 of them follow each other; groups of 8 rows
// are group_stride bytes apart; far_stride is not used. To advance along K within a row, add to the address.
// Operands with rows (or columns) contiguous, 64 16-bit elements for each k, swizzled by 128 bytes: 8 k follow each
// other; groups of 8 k are group_stride bytes apart, and blocks of 64 rows far_stride bytes.
// Operands with rows contiguous and not swizzled: 8 rows are 16 bytes, 8 k follow each other; groups of 8 rows are
// group_stride bytes apart, and groups of 8 k far_stride bytes.
__device__ inline uint64_t describe(uint32_t address, Swizzle swizzle, uint32_t group_stride,
                                    uint32_t far_stride = 16) {
  const auto field = [](uint32_t bytes) { return static_cast<uint64_t>((bytes & 0x3FFFF) >> 4); };
  return field(address) | field(far_stride) << 16 | field(group_stride) << 32 | static_cast<uint64_t>(swizzle) << 62;
}

__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most PENDING committed groups are unfinished.
template <int PENDING>
__device__ inline void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// Tells the compiler that asynchronous products change (or read) a register here.
__device__ inline void fence_register(float& value) { asm volatile("" : "+f"(value)::"memory"); }
__device__ inline void fence_register(uint32_t& value) { asm volatile("" : "+r"(value)::"memory"); }

struct tf32 {};  // float32 operands of which the matrix units read the first 19 bits

// from_shared: sums = rows * columns + (accumulate ? sums : 0), both operands described; ROWS_CONTIGUOUS and
// COLUMNS_CONTIGUOUS (16-bit types alone) say that an operand is not K-contiguous.
// from_registers: rows[0 .. 3] hold, for a 16-bit type, the pairs (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8)
// of (row, k) with the next k in the upper half; for TF32 (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4).
template <class T, int N>
struct Products;

// clang-format off
#define KSMM_SUMS_4(i) "+f"(sums[i]), "+f"(sums[(i) + 1]), "+f"(sums[(i) + 2]), "+f"(sums[(i) + 3])
#define KSMM_SUMS_16(i) KSMM_SUMS_4(i), KSMM_SUMS_4((i) + 4), KSMM_SUMS_4((i) + 8), KSMM_SUMS_4((i) + 12)
#define KSMM_NAMES_16_0 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define KSMM_NAMES_16_16 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define KSMM_NAMES_16_32 "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define KSMM_NAMES_16_48 "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define KSMM_NAMES_16_64 "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define KSMM_NAMES_16_80 "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define KSMM_NAMES_16_96 "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111"
#define KSMM_NAMES_16_112 "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define KSMM_NAMES_4_0 "%0,%1,%2,%3"
#define KSMM_NAMES_4_4 "%4,%5,%6,%7"
#define KSMM_NAMES_4_8 "%8,%9,%10,%11"
#define KSMM_NAMES_4_16 "%16,%17,%18,%19"
#define KSMM_NAMES_4_20 "%20,%21,%22,%23"
#define KSMM_NAMES_4_32 "%32,%33,%34,%35"
#define KSMM_NAMES_4_36 "%36,%37,%38,%39"
#define KSMM_NAMES_4_40 "%40,%41,%42,%43"

#define KSMM_PRODUCTS(N, NAMES, SUMS, I0, I1, I2, I3, I4, I5, I6)                                                    \
  template <class T>                                                                                                 \
  struct Products<T, N> {                                                                                            \
    template <bool ROWS_CONTIGUOUS = false, bool COLUMNS_CONTIGUOUS = false>                                         \
    __device__ static void from_shared(float (&sums)[N / 2], uint64_t rows, uint64_t columns, bool accumulate) {     \
      if constexpr (std::is_same_v<T, tf32>)                                                                         \
        asm volatile("{.reg .pred p; setp.ne.b32 p, %" #I2 ", 0;\n"                                                  \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k8.f32.tf32.tf32 {" NAMES "}, %" #I0 ", %" #I1          \
                     ", p, 1, 1;}" : SUMS : "l"(rows), "l"(columns), "r"(static_cast<int>(accumulate)));             \
      else if constexpr (std::is_same_v<T, float16>)                                                                 \
        asm volatile("{.reg .pred p; setp.ne.b32 p, %" #I2 ", 0;\n"                                                  \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.f16.f16 {" NAMES "}, %" #I0 ", %" #I1           \
                     ", p, 1, 1, %" #I3 ", %" #I4 ";}" : SUMS : "l"(rows), "l"(columns),                             \
                     "r"(static_cast<int>(accumulate)), "n"(int(ROWS_CONTIGUOUS)), "n"(int(COLUMNS_CONTIGUOUS)));    \
      else                                                                                                           \
        asm volatile("{.reg .pred p; setp.ne.b32 p, %" #I2 ", 0;\n"                                                  \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" NAMES "}, %" #I0 ", %" #I1         \
                     ", p, 1, 1, %" #I3 ", %" #I4 ";}" : SUMS : "l"(rows), "l"(columns),                             \
                     "r"(static_cast<int>(accumulate)), "n"(int(ROWS_CONTIGUOUS)), "n"(int(COLUMNS_CONTIGUOUS)));    \
    }                                                                                                                \
    template <bool COLUMNS_CONTIGUOUS = false>                                                                       \
    __device__ static void from_registers(float (&sums)[N / 2], const uint32_t (&rows)[4], uint64_t columns,         \
                                          bool accumulate) {                                                         \
      if constexpr (std::is_same_v<T, tf32>)                                                                         \
        asm volatile("{.reg .pred p; setp.ne.b32 p, %" #I5 ", 0;\n"                                                  \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k8.f32.tf32.tf32 {" NAMES "}, {%" #I0 ",%" #I1 ",%" #I2 \
                     ",%" #I3 "}, %" #I4 ", p, 1, 1;}" : SUMS : "r"(rows[0]), "r"(rows[1]), "r"(rows[2]),            \
                     "r"(rows[3]), "l"(columns), "r"(static_cast<int>(accumulate)));                                 \
      else if constexpr (std::is_same_v<T, float16>)                                                                 \
        asm volatile("{.reg .pred p; setp.ne.b32 p, %" #I5 ", 0;\n"                                                  \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.f16.f16 {" NAMES "}, {%" #I0 ",%" #I1 ",%" #I2  \
                     ",%" #I3 "}, %" #I4 ", p, 1, 1, %" #I6 ";}" : SUMS : "r"(rows[0]), "r"(rows[1]), "r"(rows[2]),  \
                     "r"(rows[3]), "l"(columns), "r"(static_cast<int>(accumulate)), "n"(int(COLUMNS_CONTIGUOUS)));   \
      else                                                                                                           \
        asm volatile("{.reg .pred p; setp.ne.b32 p, %" #I5 ", 0;\n"                                                  \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" NAMES "}, {%" #I0 ",%" #I1 ",%"    \
                     #I2 ",%" #I3 "}, %" #I4 ", p, 1, 1, %" #I6 ";}" : SUMS : "r"(rows[0]), "r"(rows[1]),            \
                     "r"(rows[2]), "r"(rows[3]), "l"(columns), "r"(static_cast<int>(accumulate)),                    \
                     "n"(int(COLUMNS_CONTIGUOUS)));                                                                  \
    }                                                                                                                \
  };

#define KSMM_LIST_16 KSMM_SUMS_4(0), KSMM_SUMS_4(4)
KSMM_PRODUCTS(16, KSMM_NAMES_4_0 "," KSMM_NAMES_4_4, KSMM_LIST_16, 8, 9, 10, 11, 12, 13, 14)
#define KSMM_LIST_24 KSMM_SUMS_4(0), KSMM_SUMS_4(4), KSMM_SUMS_4(8)
KSMM_PRODUCTS(24, KSMM_NAMES_4_0 "," KSMM_NAMES_4_4 "," KSMM_NAMES_4_8, KSMM_LIST_24, 12, 13, 14, 15, 16, 17, 18)
#define KSMM_LIST_32 KSMM_SUMS_16(0)
KSMM_PRODUCTS(32, KSMM_NAMES_16_0, KSMM_LIST_32, 16, 17, 18, 19, 20, 21, 22)
#define KSMM_LIST_40 KSMM_SUMS_16(0), KSMM_SUMS_4(16)
KSMM_PRODUCTS(40, KSMM_NAMES_16_0 "," KSMM_NAMES_4_16, KSMM_LIST_40, 20, 21, 22, 23, 24, 25, 26)
#define KSMM_LIST_48 KSMM_SUMS_16(0), KSMM_SUMS_4(16), KSMM_SUMS_4(20)
KSMM_PRODUCTS(48, KSMM_NAMES_16_0 "," KSMM_NAMES_4_16 "," KSMM_NAMES_4_20, KSMM_LIST_48, 24, 25, 26, 27, 28, 29, 30)
#define KSMM_LIST_64 KSMM_SUMS_16(0), KSMM_SUMS_16(16)
KSMM_PRODUCTS(64, KSMM_NAMES_16_0 "," KSMM_NAMES_16_16, KSMM_LIST_64, 32, 33, 34, 35, 36, 37, 38)
#define KSMM_LIST_72 KSMM_SUMS_16(0), KSMM_SUMS_16(16), KSMM_SUMS_4(32)
KSMM_PRODUCTS(72, KSMM_NAMES_16_0 "," KSMM_NAMES_16_16 "," KSMM_NAMES_4_32, KSMM_LIST_72, 36, 37, 38, 39, 40, 41, 42)
#define KSMM_LIST_88 KSMM_SUMS_16(0), KSMM_SUMS_16(16), KSMM_SUMS_4(32), KSMM_SUMS_4(36), KSMM_SUMS_4(40)
KSMM_PRODUCTS(88, KSMM_NAMES_16_0 "," KSMM_NAMES_16_16 "," KSMM_NAMES_4_32 "," KSMM_NAMES_4_36 "," KSMM_NAMES_4_40, KSMM_LIST_88, 44, 45, 46, 47, 48, 49, 50)
#define KSMM_LIST_96 KSMM_SUMS_16(0), KSMM_SUMS_16(16), KSMM_SUMS_16(32)
KSMM_PRODUCTS(96, KSMM_NAMES_16_0 "," KSMM_NAMES_16_16 "," KSMM_NAMES_16_32, KSMM_LIST_96, 48, 49, 50, 51, 52, 53, 54)
#define KSMM_LIST_128 KSMM_SUMS_16(0), KSMM_SUMS_16(16), KSMM_SUMS_16(32), KSMM_SUMS_16(48)
KSMM_PRODUCTS(128, KSMM_NAMES_16_0 "," KSMM_NAMES_16_16 "," KSMM_NAMES_16_32 "," KSMM_NAMES_16_48, KSMM_LIST_128, 64, 65, 66, 67, 68, 69, 70)
#define KSMM_LIST_192 KSMM_SUMS_16(0), KSMM_SUMS_16(16), KSMM_SUMS_16(32), KSMM_SUMS_16(48), KSMM_SUMS_16(64), KSMM_SUMS_16(80)
KSMM_PRODUCTS(192, KSMM_NAMES_16_0 "," KSMM_NAMES_16_16 "," KSMM_NAMES_16_32 "," KSMM_NAMES_16_48 "," KSMM_NAMES_16_64 "," KSMM_NAMES_16_80, KSMM_LIST_192, 96, 97, 98, 99, 100, 101, 102)
#define KSMM_LIST_256 KSMM_SUMS_16(0), KSMM_SUMS_16(16), KSMM_SUMS_16(32), KSMM_SUMS_16(48), KSMM_SUMS_16(64), KSMM_SUMS_16(80), KSMM_SUMS_16(96), KSMM_SUMS_16(112)
KSMM_PRODUCTS(256, KSMM_NAMES_16_0 "," KSMM_NAMES_16_16 "," KSMM_NAMES_16_32 "," KSMM_NAMES_16_48 "," KSMM_NAMES_16_64 "," KSMM_NAMES_16_80 "," KSMM_NAMES_16_96 "," KSMM_NAMES_16_112, KSMM_LIST_256, 128, 129, 130, 131, 132, 133, 134)
// clang-format on

}  // namespace ksmm::hopper
