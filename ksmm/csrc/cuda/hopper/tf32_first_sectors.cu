// The TF32 family's tiles for batch_first with 8 of many j in a tile, by their r.
#include "tf32.cuh"

#ifdef KSMM_SM90A

#include <iterator>

#include "tf32_family.cuh"

namespace ksmm::hopper {
namespace {

constexpr Configuration family[] = {
    Tf32Configuration<Access::sectors, 8, 1, 64, true, 16, 16>::as("tf32 first sectors 64"),
    Tf32Configuration<Access::sectors, 8, 1, 48, true, 16, 16>::as("tf32 first sectors 48"),
};

}  // namespace

Configurations tf32_batch_first_sectors() { return {family, static_cast<int>(std::size(family))}; }

}  // namespace ksmm::hopper

#endif
