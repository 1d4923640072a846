"""The profile of networks: what cannot be profiled is a row with its reason, and the others are profiled."""

import pytest

from ksmm.networks import profile as module
from tests.networks.conftest import ENTRIES, QUICK


@pytest.mark.parametrize(("message", "status"), [("CUDA error: unspecified launch failure", "failed"), ("", "failed")])
def test_an_error_in_one_network_is_a_row_with_its_reason(monkeypatch, message, status):
    def fails(*arguments):
        raise RuntimeError(message)

    monkeypatch.setattr(module, "_kernels", fails)
    (row,) = module.profile(ENTRIES["feed_forward"], QUICK, "cpu")
    assert row["status"] == status
    assert row["reason"] == f"RuntimeError: {message or 'RuntimeError'}"
