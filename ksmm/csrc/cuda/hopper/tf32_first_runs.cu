// The TF32 family's tiles for batch_first with all j in a tile: d, then r.
#include "tf32.cuh"

#ifdef KSMM_SM90A

#include <iterator>

#include "tf32_family.cuh"

namespace ksmm::hopper {
namespace {

constexpr Configuration family[] = {
    Tf32Configuration<Access::runs, 1, 2, 128, false, 32, 32>::as("tf32 first 1 128"),
    Tf32Configuration<Access::runs, 1, 2, 96, false, 32, 32>::as("tf32 first 1 96"),
    Tf32Configuration<Access::runs, 1, 2, 64, false, 32, 32>::as("tf32 first 1 64"),
    Tf32Configuration<Access::runs, 1, 2, 48, false, 32, 32>::as("tf32 first 1 48"),
    Tf32Configuration<Access::runs, 2, 1, 128, false, 16, 16>::as("tf32 first 2 128"),
    Tf32Configuration<Access::runs, 2, 1, 96, false, 16, 16>::as("tf32 first 2 96"),
    Tf32Configuration<Access::runs, 2, 1, 64, false, 16, 16>::as("tf32 first 2 64"),
    Tf32Configuration<Access::runs, 2, 1, 48, false, 16, 16>::as("tf32 first 2 48"),
    Tf32Configuration<Access::runs, 3, 1, 64, false, 32, 16>::as("tf32 first 3 64"),
    Tf32Configuration<Access::runs, 4, 1, 64, false, 16, 16>::as("tf32 first 4 64"),
    Tf32Configuration<Access::runs, 4, 1, 48, false, 16, 16>::as("tf32 first 4 48"),
    Tf32Configuration<Access::runs, 4, 1, 32, false, 16, 16>::as("tf32 first 4 32"),
    Tf32Configuration<Access::runs, 6, 1, 32, false, 16, 16>::as("tf32 first 6 32"),
    Tf32Configuration<Access::runs, 8, 1, 64, true, 16, 16>::as("tf32 first 8 64"),
    Tf32Configuration<Access::runs, 8, 1, 48, true, 16, 16>::as("tf32 first 8 48"),
};

}  // namespace

Configurations tf32_batch_first_runs() { return {family, static_cast<int>(std::size(family))}; }

}  // namespace ksmm::hopper

#endif
