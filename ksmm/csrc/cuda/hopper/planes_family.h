// The tiles of the family "planes" that are compiled in, as a list of KSMM_TILE(name, WEIGHT, J, R, K, X_STAGES,
// WEIGHT_STAGES, SPLIT, WIDE) and, where it is a cluster's or Y is buffered, how many of its blocks are along r, and
// along n; then the chunks of Y of a warpgroup that there is room for. WEIGHT: W comes DIRECT from its tensor, or is
// EITHER that or prepared by stages (planes_weight.h).
//
// More rows R mean that X is read less often, and more sums to hold: of 192 for a thread, a group of planes is
// multiplied at a time. R of 24 and 48 leave no padding where b is a multiple of 48; a long step K fetches longer rows
// of W, which the copy engine prefers, but leaves room for two stages alone. A pair, or a row of four, shares X, which
// comes half as often out of the L2 cache, and row by row through the copy engine; a quad shares W, too, and a pair of
// 12 planes W alone. Beside a row or a quad of planes pairs multiply the last rows n (planes_launch.cuh). Buffered Y
// leaves while the next tile is multiplied, and in rows of 128 bytes, where two to six planes of 8 r have 32 to 96; it
// does so in two or three parts where shared memory has no room for all of it.
#define KSMM_PLANES_TILES                                                                   \
  KSMM_TILE("planes j2 r192 k32", DIRECT, 2, 192, 32, 4, 4, false, false, 1, 1, 2)          \
  KSMM_TILE("planes j2 r64 k32", DIRECT, 2, 64, 32, 5, 5, false, false)                     \
  KSMM_TILE("planes j2 r128 k32 buffered", DIRECT, 2, 128, 32, 5, 5, false, false, 1, 1, 4) \
  KSMM_TILE("planes j2 r64 k32 buffered", DIRECT, 2, 64, 32, 7, 7, false, false, 1, 1, 2)   \
  KSMM_TILE("planes j3 r64 k32", DIRECT, 3, 64, 32, 4, 4, false, false)                     \
  KSMM_TILE("planes j3 r128 k32 buffered", DIRECT, 3, 128, 32, 3, 3, false, false, 1, 1, 3) \
  KSMM_TILE("planes j3 r64 k32 buffered", DIRECT, 3, 64, 32, 4, 4, false, false, 1, 1, 3)   \
  KSMM_TILE("planes j4 r96 k32", DIRECT, 4, 96, 32, 3, 3, false, false, 1, 1, 3)            \
  KSMM_TILE("planes j4 r88 k32", DIRECT, 4, 88, 32, 3, 3, false, false, 1, 1, 3)            \
  KSMM_TILE("planes j4 r96 k32 pair", DIRECT, 4, 96, 32, 3, 3, false, false, 2, 1, 3)       \
  KSMM_TILE("planes j4 r88 k32 pair", EITHER, 4, 88, 32, 3, 3, false, false, 2, 1, 3)       \
  KSMM_TILE("planes j4 r64 k32", DIRECT, 4, 64, 32, 4, 4, false, false)                     \
  KSMM_TILE("planes j4 r64 k64", DIRECT, 4, 64, 64, 2, 2, false, false)                     \
  KSMM_TILE("planes j4 r48 k32", DIRECT, 4, 48, 32, 4, 4, false, false)                     \
  KSMM_TILE("planes j4 r64 k32 buffered", DIRECT, 4, 64, 32, 3, 3, false, false, 1, 1, 4)   \
  KSMM_TILE("planes j5 r64 k32", DIRECT, 5, 64, 32, 2, 2, false, false)                     \
  KSMM_TILE("planes j6 r64 k16", EITHER, 6, 64, 16, 4, 4, false, false, 1, 1, 3)            \
  KSMM_TILE("planes j6 r48 k32", DIRECT, 6, 48, 32, 2, 2, false, false)                     \
  KSMM_TILE("planes j6 r48 k16", DIRECT, 6, 48, 16, 4, 4, false, false)                     \
  KSMM_TILE("planes j7 r48 k32", DIRECT, 7, 48, 32, 2, 2, false, false)                     \
  KSMM_TILE("planes j8 r48 k16", EITHER, 8, 48, 16, 4, 4, false, false, 1, 1, 2)            \
  KSMM_TILE("planes j8 r48 k16 pair", EITHER, 8, 48, 16, 4, 4, false, false, 2, 1, 2)       \
  KSMM_TILE("planes j8 r40 k16", EITHER, 8, 40, 16, 4, 4, false, false)                     \
  KSMM_TILE("planes j8 r32 k16", DIRECT, 8, 32, 16, 4, 4, false, false)                     \
  KSMM_TILE("planes j8 r24 k16", DIRECT, 8, 24, 16, 4, 4, false, false)                     \
  KSMM_TILE("planes j12 r64 k16", EITHER, 12, 64, 16, 4, 4, true, false)                    \
  KSMM_TILE("planes j12 r64 k16 pair", EITHER, 12, 64, 16, 4, 4, true, false, 1, 2)         \
  KSMM_TILE("planes j12 r64 k16 quad", EITHER, 12, 64, 16, 4, 4, true, false, 2, 2)         \
  KSMM_TILE("planes j12 r48 k16", EITHER, 12, 48, 16, 4, 4, true, false)                    \
  KSMM_TILE("planes j12 r32 k32", DIRECT, 12, 32, 32, 2, 2, true, false)                    \
  KSMM_TILE("planes j16 r48 k16", EITHER, 16, 48, 16, 3, 3, true, false)                    \
  KSMM_TILE("planes j16 r48 k16 pair", EITHER, 16, 48, 16, 3, 3, true, false, 2)            \
  KSMM_TILE("planes j16 r32 k16", EITHER, 16, 32, 16, 4, 4, true, false)                    \
  KSMM_TILE("planes j16 r24 k16", DIRECT, 16, 24, 16, 4, 4, true, false)                    \
  KSMM_TILE("planes sector r48 k16", EITHER, 16, 48, 16, 3, 3, true, true)                  \
  KSMM_TILE("planes sector r48 k16 pair", EITHER, 16, 48, 16, 3, 3, true, true, 2)          \
  KSMM_TILE("planes sector r48 k16 row", EITHER, 16, 48, 16, 3, 3, true, true, 4)           \
  KSMM_TILE("planes sector r32 k16", DIRECT, 16, 32, 16, 4, 4, true, true)                  \
  KSMM_TILE("planes sector r24 k16", DIRECT, 16, 24, 16, 4, 4, true, true)                  \
  KSMM_TILE("planes j16 r32 k16 pair", EITHER, 16, 32, 16, 4, 4, true, false, 2)            \
  KSMM_TILE("planes j16 r48 k16 row", EITHER, 16, 48, 16, 3, 3, true, false, 4)             \
  KSMM_TILE("planes j16 r32 k16 row", EITHER, 16, 32, 16, 4, 4, true, false, 4)             \
  KSMM_TILE("planes j16 r32 k32 pair", DIRECT, 16, 32, 32, 2, 2, true, false, 2)            \
  KSMM_TILE("planes j16 r24 k16 pair", DIRECT, 16, 24, 16, 4, 4, true, false, 2)            \
  KSMM_TILE("planes j24 r32 k16", EITHER, 24, 32, 16, 2, 2, true, false)                    \
  KSMM_TILE("planes j24 r32 k16 pair", EITHER, 24, 32, 16, 3, 2, true, false, 2)            \
  KSMM_TILE("planes j24 r32 k16 row", EITHER, 24, 32, 16, 3, 2, true, false, 4)             \
  KSMM_TILE("planes j24 r32 k16 quad", EITHER, 24, 32, 16, 3, 2, true, false, 2, 2)         \
  KSMM_TILE("planes sector r32 k16 pair", EITHER, 16, 32, 16, 4, 4, true, true, 2)          \
  KSMM_TILE("planes sector r32 k32 pair", DIRECT, 16, 32, 32, 2, 2, true, true, 2)          \
  KSMM_TILE("planes sector r32 k16 row", EITHER, 16, 32, 16, 4, 4, true, true, 4)           \
  KSMM_TILE("planes sector r24 k16 quad", EITHER, 16, 24, 16, 4, 4, true, true, 2, 2)
