// The TF32 family's tiles for batch_last whose rows begin anywhere: 256 n by as many r as the name says.
#include "tf32.cuh"

#ifdef KSMM_SM90A

#include <iterator>

#include "tf32_family.cuh"

namespace ksmm::hopper {
namespace {

constexpr Configuration family[] = {
    Tf32Configuration<Access::shifted, 1, 2, 128, false, 32, 32>::as("tf32 shifted 128"),
    Tf32Configuration<Access::shifted, 1, 2, 96, false, 32, 32>::as("tf32 shifted 96"),
    Tf32Configuration<Access::shifted, 1, 2, 64, false, 32, 32>::as("tf32 shifted 64"),
    Tf32Configuration<Access::shifted, 1, 2, 48, false, 32, 32>::as("tf32 shifted 48"),
};

}  // namespace

Configurations tf32_shifted() { return {family, static_cast<int>(std::size(family))}; }

}  // namespace ksmm::hopper

#endif
