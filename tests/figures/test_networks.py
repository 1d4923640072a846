"""The tables that are drawn from networks.csv, and what the notebook takes from it."""

import os
import subprocess
import sys

import pandas as pd
import pytest

from ksmm.measure.protocol import Protocol
from ksmm.networks.by_hand import measure_vit, rule_of
from ksmm.networks.table import write_networks_table
from tests.figures.conftest import FIGURES
from tests.figures.scripts import scripts_of
from tests.figures.synthetic_networks import synthetic_networks

import vit_study  # isort: skip - found through conftest

SCRIPTS = scripts_of("networks")


@pytest.fixture(scope="module")
def networks() -> pd.DataFrame:
    return synthetic_networks()


def drawn(name, table, output) -> pd.DataFrame:
    assert SCRIPTS[name].missing(table) is None
    SCRIPTS[name].draw(table, output)
    assert SCRIPTS[name].caption(table) in (output / f"{name}.md").read_text(encoding="utf-8")
    return pd.read_csv(output / f"{name}.csv")


def test_the_papers_tables_on_networks_are_there():
    assert {"table04_vit_submodules", "table06_feed_forward_share", "table07_vit_linear"} <= set(SCRIPTS)


def test_absolute_milliseconds_stand_beside_every_ratio(networks, tmp_path):
    for name in set(SCRIPTS) - {"table06_feed_forward_share"}:
        lines = drawn(name, networks, tmp_path)
        ratios = [column for column in lines if column.endswith("_over_fully_connected")]
        assert ratios
        for column in ratios:
            milliseconds = lines[column.removesuffix("_over_fully_connected") + "_ms"]
            assert lines[column].to_numpy() == pytest.approx(
                (milliseconds / lines.fully_connected_ms).to_numpy(), rel=1e-3, nan_ok=True
            )


def test_table_4_has_the_papers_ratios_on_the_papers_line_alone(networks, tmp_path):
    lines = drawn("table04_vit_submodules", networks, tmp_path)
    whole = lines[(lines.part == "whole network") & (lines.network == "vit_s16")]
    default = whole[whole.chains == "default"]
    assert default[["accuracy_class", "mode"]].apply(tuple, axis=1).tolist() == [
        ("strict", "eager"),
        ("strict", "cuda_graph"),
        ("tf32", "eager"),
        ("float16", "eager"),
        ("float16", "cuda_graph"),
    ]
    assert default.kernel_ms.tolist() == [12, 12, 4.8, 2.4, 2.4]
    assert default.kernel_in_paper.isna().all()
    whole = whole[whole.chains == "paper"]
    assert whole[["accuracy_class", "mode"]].apply(tuple, axis=1).tolist() == [
        ("strict", "eager"),
        ("strict", "cuda_graph"),
        ("strict", "compile"),
        ("tf32", "eager"),
        ("float16", "eager"),
        ("float16", "cuda_graph"),
        ("float16", "compile"),
    ]
    assert whole.iloc[0][["fully_connected_ms", "kernel_ms", "kernel_over_fully_connected"]].tolist() == [20, 10, 0.5]
    assert whole.kernel_in_paper.dropna().tolist() == [0.78]
    assert whole.bmm_in_paper.dropna().tolist() == [0.89]
    assert lines[lines.network == "vit_s16_timm"].kernel_in_paper.isna().all()


def test_a_caption_says_how_many_times_are_of_fewer_runs(networks):
    table = networks.copy()
    assert "shorter than" not in SCRIPTS["table07_vit_linear"].caption(table)
    table.loc[table.part == "linear_n_n", "protocol_met"] = "no"
    number = int((table.part == "linear_n_n").sum())
    assert f"{number} of {6 * number} measurements are shorter than the protocol asks for" in SCRIPTS[
        "table07_vit_linear"
    ].caption(table)


def test_table_7_lists_every_linear_layer(networks, tmp_path):
    lines = drawn("table07_vit_linear", networks, tmp_path)
    assert lines["mode"].value_counts().to_dict() == {"eager": 6 * 3, "cuda_graph": 6 * 2}
    assert lines.kernel_in_paper.dropna().tolist() == [0.5, 0.66, 0.78, 0.9, 0.58, 0.61]


def test_table_6_gives_shares_of_dense_networks(networks, tmp_path):
    lines = drawn("table06_feed_forward_share", networks, tmp_path)
    assert lines.network.drop_duplicates().tolist() == ["vit_s16", "vit_b16", "vit_l16", "vit_h14"]
    assert (lines.share_percent == 50).all()
    of_h14 = lines[lines.network == "vit_h14"].set_index("accuracy_class")
    assert of_h14.share_in_paper_percent.to_dict() == pytest.approx(
        {"strict": 61, "tf32": float("nan"), "float16": 53}, nan_ok=True
    )


def test_language_models_list_prefill_decoding_and_the_block(networks, tmp_path):
    lines = drawn("table_language_models", networks, tmp_path)
    assert set(lines.part) == {"prefill", "one token", "block"}
    assert set(lines[lines.part == "one token"]["mode"]) == {"eager", "cuda_graph", "compile", "compile_cuda_graph"}
    assert lines[lines.part == "prefill"].bmm_ms.isna().all()
    assert "measurements have no time" in SCRIPTS["table_language_models"].caption(networks)


@pytest.mark.parametrize("name", SCRIPTS)
def test_without_measurements_the_reason_is_given(name, networks):
    assert len(SCRIPTS[name].missing(networks.iloc[:0])) > 20
    without = synthetic_networks(failing=("kernel", "bmm", "fully_connected"))
    reason = SCRIPTS[name].missing(without)
    assert "out_of_memory: CUDA out of memory" in reason or name == "table06_feed_forward_share"


@pytest.mark.parametrize("name", SCRIPTS)
def test_tiny_networks_are_drawn(name, tmp_path):
    lines = drawn(name, synthetic_networks("tiny"), tmp_path)
    assert set(lines.network) <= {"vit_tiny", "vit_tiny_wide", "gpt2_tiny", "llama_tiny_block"}
    assert not any("paper" in column for column in lines)


def test_by_hand(networks, tmp_path):
    write_networks_table(networks, tmp_path / "networks.csv")
    for script, expected in (("table07_vit_linear.py", 0), ("table03_speedups.py", 1)):
        command = [sys.executable, FIGURES / script, "--table", tmp_path / "networks.csv", "--output", tmp_path]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": ""}
        )
        assert done.returncode == expected, done.stderr
    assert "has no column" in done.stderr and "Traceback" not in done.stderr
    assert (tmp_path / "table07_vit_linear.md").exists()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"architecture": "vit_z1"}, "network 'vit_z1'; it has vit_s16"),
        ({"chains": "daisy"}, "chains 'daisy'; it has paper"),
        ({"batch": 3}, "batch_size 3; it has 128"),
        ({"dtype": "bfloat16"}, "no bfloat16 measurement with network"),
        ({"chains": {"2x2": [[1, 2, 2, 1]]}}, "set measure = True"),
    ],
)
def test_parameters_of_the_notebook_that_the_table_lacks_are_named(parameters, message, networks):
    values = {"dtype": "float32", "architecture": "", "chains": "", "batch": 0, "implementations": []} | parameters
    with pytest.raises(ValueError, match=message):
        vit_study.chosen(networks, **values)


def test_the_notebook_measures_chains_of_ones_own():
    quick = Protocol(min_samples=1, max_samples=1, runs_per_sample=1, max_seconds=0.01, max_seconds_per_run=30.0)
    chains = {"96x96": [[1, 48, 12, 2], [2, 12, 48, 1]]}
    parts = ("linear_n_n", "linear_4n_n")
    table = measure_vit("vit_tiny", chains, 1, ["strict"], ["bmm"], "cpu", quick, parts)
    assert table.status.tolist() == ["ok", "ok", "ok", "failed"]
    assert "no chain for any of the layers" in table.reason.iloc[-1]
    assert vit_study.chosen(table, "float32", "", "", 0, []).chains.tolist() == ["", "", "own", "own"]
    lines = vit_study.table(table, vit_study.LAYERS)
    assert lines.part.tolist() == ["linear N × N"]
    assert "errors up to" in vit_study.accuracy(table)


def test_chains_of_another_size_are_refused():
    with pytest.raises(ValueError, match="is of size 2x2, not 4x2"):
        rule_of({"4x2": [(1, 2, 2, 1)]})
    with pytest.raises(ValueError, match="unknown chains 'daisy'"):
        rule_of("daisy")
