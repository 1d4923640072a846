// The TF32 family's tiles that multiply halves, for batch_last whose rows begin anywhere: 256 n by as many r as the
// name says.
#include "tf32.cuh"

#ifdef KSMM_SM90A

#include <iterator>

#include "halves_family.cuh"

namespace ksmm::hopper {
namespace {

constexpr Configuration family[] = {
    HalvesConfiguration<Access::shifted, 1, 2, 128, false, 32, 32>::as("halves shifted 128"),
    HalvesConfiguration<Access::shifted, 1, 2, 96, false, 32, 32>::as("halves shifted 96"),
    HalvesConfiguration<Access::shifted, 1, 2, 64, false, 32, 32>::as("halves shifted 64"),
};

}  // namespace

Configurations halves_shifted() { return {family, static_cast<int>(std::size(family))}; }

}  // namespace ksmm::hopper

#endif
