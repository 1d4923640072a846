"""The entries of the subjects: dense ones to compare with, each measured once."""

import pytest

from ksmm.networks.sizes import SIZES
from ksmm.networks.subjects import SUBJECTS, entries


@pytest.mark.parametrize("subject", SUBJECTS)
@pytest.mark.parametrize("size", SIZES)
def test_subjects_have_different_entries_with_dense_ones_to_compare_with(subject, size):
    modes = ("eager", "cuda_graph", "compile", "compile_cuda_graph")
    found = entries(subject, size, ["strict", "tf32", "float16"], ["kernel", "bmm"], modes)
    assert found and len(found) == len(set(found))
    of = {
        (e.network, e.part, e.batch_size, e.tokens, e.cached_tokens, e.accuracy_class, e.mode)
        for e in found
        if e.is_dense
    }
    for entry in found:
        key = (entry.network, entry.part, entry.batch_size, entry.tokens, entry.cached_tokens)
        assert (*key, entry.accuracy_class, entry.mode) in of
        assert entry.mode == "eager" or (entry.accuracy_class != "tf32" and entry.implementation != "bmm")
        assert bool(entry.chains) != entry.is_dense


@pytest.mark.parametrize(("subject", "size"), [("alexnet", "tiny"), ("vit", "huge")])
def test_unknown_subjects_and_sizes_are_refused(subject, size):
    with pytest.raises(ValueError, match=f"unknown (subject|size) '{subject if subject != 'vit' else size}'"):
        entries(subject, size, ["strict"], ["bmm"], ["eager"])
