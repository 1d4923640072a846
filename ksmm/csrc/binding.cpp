// The operators' schemas. Each device's kernels are in a file of their own, and gradients.cpp has their gradients.
//
// The fake kernels are registered from Python (ksmm/implementations/kernel.py), where they are shorter. Python.h is not
// included, so that one library serves every Python version of a PyTorch build.
#include <torch/library.h>

#include "ks_matmul.h"

TORCH_LIBRARY(ksmm, library) {
  // configuration: a number of those that `configurations` lists, -1 for the choice of the cost model.
  library.def(
      "ks_matmul(Tensor x, Tensor weight, str layout, Tensor? bias=None, str precision=\"default\", "
      "int configuration=-1) -> Tensor",
      {at::Tag::pt2_compliant_tag});
  // The same with what `keep` returned for this weight and configuration. `keep` returns no tensors where the
  // configuration makes nothing of a weight, and the number of the one that -1 has chosen.
  library.def(
      "ks_matmul_kept(Tensor x, Tensor weight, str layout, Tensor? bias, str precision, int configuration, "
      "Tensor[] kept) -> Tensor",
      {at::Tag::pt2_compliant_tag});
  library.def(
      "keep(Tensor x, Tensor weight, str layout, str precision, int configuration) -> (int configuration, Tensor[] "
      "kept)");
  // outer · (inner · x); launches: 1 or 2, 0 for whichever is predicted to be faster.
  library.def(
      "ks_chain(Tensor x, Tensor outer, Tensor inner, Tensor? bias=None, int outer_configuration=-1, "
      "int inner_configuration=-1, int launches=0) -> Tensor",
      {at::Tag::pt2_compliant_tag});
  // What gradients of weights are made of (operators.h says of which shapes).
  library.def("planes(Tensor x, SymInt a, SymInt d) -> Tensor", {at::Tag::pt2_compliant_tag});
  library.def("weight_gradient(Tensor x, Tensor y_gradient, SymInt a, SymInt d) -> Tensor",
              {at::Tag::pt2_compliant_tag});
  library.def("weight_gradient_first(Tensor x, Tensor y_gradient, SymInt a, SymInt d, int parts=-1) -> Tensor",
              {at::Tag::pt2_compliant_tag});
  // Number and name of each that takes the problem, the cost model's choice first. kept: for a weight of which `keep`
  // has made what each needs.
  library.def(
      "configurations(Tensor x, Tensor weight, str layout, str precision=\"default\", bool kept=False) -> str[]");
  library.def("multiplies_by_tiles() -> bool", ksmm::multiplies_by_tiles);
}
