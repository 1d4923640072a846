// The TF32 family's tiles that multiply halves, for batch_first.
#include "tf32.cuh"

#ifdef KSMM_SM90A

#include <iterator>

#include "halves_family.cuh"

namespace ksmm::hopper {
namespace {

constexpr Configuration family[] = {
    HalvesConfiguration<Access::runs, 1, 2, 96, false, 32, 32>::as("halves first 1 96"),
    HalvesConfiguration<Access::runs, 1, 2, 64, false, 32, 32>::as("halves first 1 64"),
    HalvesConfiguration<Access::runs, 2, 1, 96, false, 32, 32, 16, 16>::as("halves first 2 96"),
    HalvesConfiguration<Access::runs, 2, 1, 64, false, 32, 32, 16, 16>::as("halves first 2 64"),
    HalvesConfiguration<Access::runs, 3, 1, 64, false, 32, 32, 32, 16>::as("halves first 3 64"),
    HalvesConfiguration<Access::runs, 4, 1, 64, false, 16, 16>::as("halves first 4 64"),
    HalvesConfiguration<Access::runs, 8, 1, 64, true, 16, 16>::as("halves first 8 64"),
    HalvesConfiguration<Access::runs, 8, 1, 48, true, 32, 32, 16, 16>::as("halves first 8 48"),
    HalvesConfiguration<Access::sectors, 8, 1, 64, true, 16, 16>::as("halves first sectors 64"),
    HalvesConfiguration<Access::sectors, 8, 1, 48, true, 16, 16>::as("halves first sectors 48"),
};

}  // namespace

Configurations halves_batch_first() { return {family, static_cast<int>(std::size(family))}; }

}  // namespace ksmm::hopper

#endif
