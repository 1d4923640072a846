// What the matrix units read: X from shared memory into registers, W within shared memory, and both as sums of three of
// bfloat16.
#pragma once

#include "../number.cuh"
#include "tf32_tile.cuh"

namespace ksmm::hopper {

// Rounds to the 11 significant bits of TF32, to nearest. NaN stays NaN, whose bits an addition may carry to zero: those
// that a GPU makes are all ones.
__device__ inline uint32_t rounded(float value) {
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
}

// Two numbers as sums of three of bfloat16 each: each takes 8 of the 24 significant bits and a sign. Exactly from
// 2^-110 on; below, the last part ends at 2^-133, where bfloat16 does. Infinities, NaN and numbers that round up to
// infinity give sums that are not finite, which the epilogue does again.
__device__ inline void split_pair(float low, float high, uint32_t& first, uint32_t& second, uint32_t& third) {
  first = pack_pair<bfloat16>(low, high);
  low -= __uint_as_float(first << 16), high -= __uint_as_float(first & 0xffff0000u);
  second = pack_pair<bfloat16>(low, high);
  low -= __uint_as_float(second << 16), high -= __uint_as_float(second & 0xffff0000u);
  third = pack_pair<bfloat16>(low, high);
}

// Which of 8 consecutive n a lane's row g is: any order will do as long as X is read and Y written in the same one, and
// these let 8 neighbouring lanes read from different banks.
template <class Tile>
__device__ inline int place_of_row(int g) {
  if constexpr (Tile::access == Access::rows || Tile::planes == 4)
    return (g >> 1) | (g & 1) << 2;
  else if constexpr (Tile::planes == 2)
    return (g & 3) << 1 | g >> 2;
  else
    return g;
}

template <int FLOATS>
__device__ inline void read_shared(float (&to)[FLOATS], uint32_t address) {
  if constexpr (FLOATS == 4)
    asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
                 : "r"(address));
  else if constexpr (FLOATS == 2)
    asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];" : "=f"(to[0]), "=f"(to[1]) : "r"(address));
  else
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(to[0]) : "r"(address));
}

// From where the rows of a lane begin to n of its row k + lane % 4, in bytes (shifted); k is a multiple of 4.
template <class Tile>
__host__ __device__ inline int offset_in_shifted(int n, int k) {
  return (n / shifted_strip * (Tile::k * shifted_pitch) + k / 4 * shifted_pitch + n % shifted_strip) * 4;
}

// Reads what a lane of the matrix unit has of `pack` units, for 8 of c from k0 on: for each of its 4 elements (rows g
// and g + 8 at k = t, then at t + 4) the values of the units. `warp` counts within the warpgroup.
template <class Tile>
__device__ inline void read_pack(float (&values)[4][Tile::pack], uint32_t x, int first_unit, int k0, int first_n,
                                 int first_plane, int warp, int lane) {
  const int g = lane / 4, t = lane % 4;
  if constexpr (Tile::access == Access::shifted) {  // x is where this lane's rows begin
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int eight = 0; eight < 2 * Tile::pack; ++eight) {  // rows g and g + 8 of each block are eight n apart
        float read[1];
        read_shared(read,
                    x + offset_in_shifted<Tile>(first_n + warp * 32 + g + 8 * (2 * first_unit + eight), k0 + 4 * half));
        values[2 * half + eight % 2][eight / 2] = read[0];
      }
  } else if constexpr (Tile::access == Access::rows && Tile::pack == 1) {
    const uint32_t box = x + (first_n / 32 + warp) * (Tile::k * 128) + first_unit * 8;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int k = k0 + t + 4 * half;
      float read[2];  // rows g and g + 8 of the block
      read_shared(read, box + k * 128 + ((place_of_row<Tile>(g) ^ (k & 7)) << 4));
      values[2 * half][0] = read[0], values[2 * half + 1][0] = read[1];
    }
  } else if constexpr (Tile::access == Access::rows) {
    const uint32_t box = x + (first_n / 32 + warp) * (Tile::k * 128);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int k = k0 + t + 4 * half;
      float read[4];  // n: row g of block 0, row g + 8 of it, the same of block 1
      read_shared(read, box + k * 128 + ((place_of_row<Tile>(g) ^ (k & 7)) << 4));
      values[2 * half][0] = read[0], values[2 * half + 1][0] = read[1];
      values[2 * half][1] = read[2], values[2 * half + 1][1] = read[3];
    }
  } else {
    const int block = first_unit / Tile::warpgroup_planes, plane = first_plane + first_unit % Tile::warpgroup_planes;
    constexpr int mask = Tile::access == Access::runs ? 7 : 1;
    const int place = place_of_row<Tile>(g);
    const int n = first_n + block * 64 + warp * 16 + place;
#pragma unroll
    for (int element = 0; element < 4; ++element) {
      const int f = (k0 + t + 4 * (element / 2)) * Tile::planes + plane;
      const int row = n + 8 * (element % 2);
      const uint32_t chunk = ((f % 32) / 4) ^ (place & mask);
      read_shared(values[element], x + (f / 32) * (Tile::batch * 128) + row * 128 + chunk * 16 + f % 4 * 4);
    }
  }
}

// The place of a 16-byte chunk in rows of ROW_BYTES swizzled over themselves.
template <int ROW_BYTES>
__device__ inline int swizzled(int offset) {
  if constexpr (ROW_BYTES == 32 || ROW_BYTES == 64 || ROW_BYTES == 128)
    return offset ^ ((offset >> 7) & (ROW_BYTES / 16 - 1)) << 4;
  else
    return offset;  // no swizzle is for such rows
}

// Rounds 4 numbers of W where they lie.
__device__ inline void round_chunk(char* weight, int chunk) {
  const float4 value = reinterpret_cast<float4*>(weight)[chunk];
  reinterpret_cast<uint4*>(weight)[chunk] = {rounded(value.x), rounded(value.y), rounded(value.z), rounded(value.w)};
}

// Reads 8 numbers of W, neighbours in a row, writes their three parts and calls look(the first four, the others). k and
// k + 4 become neighbours: so they are in the registers that hold X.
template <class Tile, class Look>
__device__ inline void split_chunk(char* weight, int chunk, Look look) {
  const float4 low = *reinterpret_cast<const float4*>(weight + swizzled<Tile::k * 4>(chunk * 32));
  const float4 high = *reinterpret_cast<const float4*>(weight + swizzled<Tile::k * 4>(chunk * 32 + 16));
  look(low, high);
  uint4 first, second, third;
  split_pair(low.x, high.x, first.x, second.x, third.x);
  split_pair(low.y, high.y, first.y, second.y, third.y);
  split_pair(low.z, high.z, first.z, second.z, third.z);
  split_pair(low.w, high.w, first.w, second.w, third.w);
  char* const to = weight + Tile::weight_bytes + swizzled<Tile::row_bytes>(chunk * 16);
  *reinterpret_cast<uint4*>(to) = first;
  *reinterpret_cast<uint4*>(to + Tile::part_bytes) = second;
  *reinterpret_cast<uint4*>(to + 2 * Tile::part_bytes) = third;
}

}  // namespace ksmm::hopper
