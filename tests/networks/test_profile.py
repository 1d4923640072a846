"""The profile of networks: times of one pass, each moment counted once; what cannot be profiled has a reason."""

import contextlib
import time
from types import SimpleNamespace

import pytest
import torch
from torch.autograd import DeviceType

from ksmm.networks import profile as module
from tests.networks.conftest import ENTRIES, QUICK, changed

PASS_S = 0.01
PASSES = 5


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RuntimeError("no such operator"), "failed"),
        (torch.OutOfMemoryError("CUDA out of memory"), "out_of_memory"),
    ],
)
def test_an_error_in_one_network_is_a_row_with_its_reason(monkeypatch, error, status):
    def fails(*arguments):
        raise error

    monkeypatch.setattr(module, "_kernels", fails)
    (row,) = module.profile(ENTRIES["feed_forward"], QUICK, "cpu")
    assert row["status"] == status
    assert row["reason"] == f"{type(error).__name__}: {error}"


def test_an_error_that_poisons_the_process_ends_it_with_that_row(monkeypatch):
    """Or all rows after it would be failed, too."""

    def fails(*arguments):
        raise RuntimeError("CUDA error: unspecified launch failure")

    monkeypatch.setattr(module, "_kernels", fails)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    with pytest.raises(module.PoisonedProfileError) as ended:
        module.profile(ENTRIES["feed_forward"], QUICK, "cpu")
    (row,) = ended.value.measurement.rows
    assert (row["status"], row["reason"]) == ("failed", "RuntimeError: CUDA error: unspecified launch failure")


def test_times_are_of_one_pass(monkeypatch):
    def run():
        for _ in range(2):
            with torch.profiler.record_function("slow"):
                time.sleep(PASS_S / 2)

    monkeypatch.setattr(module, "prepare", lambda network, mode: run)
    rows = module.profile(ENTRIES["feed_forward"], QUICK, "cpu")
    (slow,) = (row for row in rows if row["kernel"] == "slow")
    assert (slow["status"], slow["reason"], slow["calls_per_pass"]) == ("ok", "", 2)
    for seconds in (slow["seconds_per_pass"], slow["pass_s"]):
        assert PASS_S <= seconds < 0.8 * PASSES * PASS_S  # a sleep may be longer, but hardly four times as long
    assert slow["share"] == pytest.approx(slow["seconds_per_pass"] / sum(row["seconds_per_pass"] for row in rows))
    assert sum(row["share"] for row in rows) == pytest.approx(1)


def test_operators_are_counted_per_pass():
    rows = {row["kernel"]: row for row in module.profile(ENTRIES["feed_forward"], QUICK, "cpu")}
    assert {row["status"] for row in rows.values()} == {"ok"}
    assert rows["aten::bmm"]["calls_per_pass"] == 4  # two layers of two factors


@pytest.fixture
def _planted_kernels(monkeypatch):
    """The timeline of five passes in microseconds: in each, `ours` begins while `theirs` ends."""
    planted = [event for number in range(PASSES) for event in _pass_from(1000 * number)]

    @contextlib.contextmanager
    def profiler(activities):
        assert torch.profiler.ProfilerActivity.CUDA in activities
        yield SimpleNamespace(events=lambda: planted)

    monkeypatch.setattr(torch.profiler, "profile", profiler)
    monkeypatch.setattr(module.timer, "synchronise", lambda device_type: None)


def _pass_from(start):
    def event(name, begin, end, device_type=DeviceType.CUDA, is_user_annotation=False):
        time_range = SimpleNamespace(start=start + begin, end=start + end)
        return SimpleNamespace(
            name=name, time_range=time_range, device_type=device_type, is_user_annotation=is_user_annotation
        )

    yield event("aten::linear", 0, 900, device_type=DeviceType.CPU)
    yield event("block", 0, 900, is_user_annotation=True)
    yield event("theirs", 100, 400)
    yield event("ours", 300, 500)
    yield event("ours", 500, 600)
    yield event("hidden", 520, 580)


@pytest.mark.usefixtures("_planted_kernels")
def test_kernels_that_overlap_share_the_time_of_the_pass():
    passes = []
    found = module._kernels(lambda: passes.append(1), "cuda")
    assert len(passes) == PASSES
    assert [name for name, _, _ in found] == ["theirs", "ours", "hidden"]
    assert [calls for _, calls, _ in found] == [1, 2, 1]
    assert [seconds for _, _, seconds in found] == pytest.approx([300e-6, 200e-6, 0])


def test_a_whole_pass_is_timed_with_the_protocol(monkeypatch):
    asked = []

    def time_product(run, protocol, device_type, estimate_s):
        asked.append((protocol, device_type))
        return module.timer.Timing((3.0, 1.0, 2.0), 1, True)

    monkeypatch.setattr(module.timer, "time_product", time_product)
    rows = module.profile(ENTRIES["feed_forward"], QUICK, "cpu")
    assert {row["pass_s"] for row in rows} == {2.0}
    assert asked == [(QUICK, "cpu")]


def test_a_profile_lists_kernels_and_their_shares():
    chosen = module.profiled_entries("tiny", ["strict"], "bmm")
    assert [(entry.network, entry.chains, entry.is_dense) for entry in chosen] == [
        ("vit_tiny", "", True),
        ("vit_tiny", "paper", False),
        ("vit_tiny", "default", False),
        ("gpt2_tiny", "", True),
        ("gpt2_tiny", "default", False),
    ]
    rows = module.profile(chosen[1], QUICK, "cpu")
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    assert {"aten::bmm"} <= {row["kernel"] for row in rows}
    assert all(set(row) <= set(module.COLUMNS) and row["status"] == "ok" for row in rows)
    (skipped,) = module.profile(changed(chosen[0], accuracy_class="tf32"), QUICK, "cpu")
    assert skipped["status"] == "skipped" and "TF32" in skipped["reason"]
