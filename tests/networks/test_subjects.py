"""The entries of the subjects: dense ones to compare with, each measured once."""

import pytest

from ksmm.networks.entry import MODES
from ksmm.networks.sizes import SIZES
from ksmm.networks.subjects import SUBJECTS, entries

KINDS = (["strict", "tf32", "float16"], ["kernel", "bmm"], MODES)
"""Accuracy classes, implementations and modes."""


@pytest.mark.parametrize("subject", SUBJECTS)
@pytest.mark.parametrize("size", SIZES)
def test_subjects_have_different_entries_with_dense_ones_to_compare_with(subject, size):
    found = entries(subject, size, *KINDS)
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


@pytest.mark.parametrize("size", SIZES)
def test_no_entry_is_measured_by_two_jobs_that_may_run_on_different_gpus(size):
    found = [entry for subject in SUBJECTS for entry in entries(subject, size, *KINDS)]
    assert len(found) == len(set(found))


@pytest.mark.parametrize("size", SIZES)
def test_the_share_of_feed_forward_networks_is_of_one_job(size):
    for subject in SUBJECTS:
        of_part = {part: set() for part in ("feed_forward_linears", "whole")}
        for entry in entries(subject, size, *KINDS):
            if entry.part in of_part and entry.is_dense and entry.mode == "eager" and "timm" not in entry.network:
                of_part[entry.part].add((entry.network, entry.accuracy_class))
        assert of_part["feed_forward_linears"] == of_part["whole"]


@pytest.mark.parametrize("subject", ["gpt2_prefill", "gpt2_decode", "llama"])
@pytest.mark.parametrize("accuracy_class", ["strict", "float16"])
def test_what_the_host_may_bind_is_measured_in_a_cuda_graph_too(subject, accuracy_class):
    eager, replayed = (
        {(entry.batch_size, entry.tokens, entry.implementation) for entry in found}
        for found in (
            entries(subject, "paper", [accuracy_class], ["kernel"], [mode]) for mode in ("eager", "cuda_graph")
        )
    )
    assert replayed == eager != set()


@pytest.mark.parametrize(("subject", "size"), [("alexnet", "tiny"), ("vit", "huge")])
def test_unknown_subjects_and_sizes_are_refused(subject, size):
    with pytest.raises(ValueError, match=f"unknown (subject|size) '{subject if subject != 'vit' else size}'"):
        entries(subject, size, ["strict"], ["bmm"], ["eager"])
