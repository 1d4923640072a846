"""Times of networks that spread widely: they are listed, and not compared."""

import pandas as pd
import pytest

from tests.figures.synthetic_networks import synthetic_networks

import table04_vit_submodules  # isort: skip - found through conftest
import table06_feed_forward_share as table_6  # isort: skip
import table07_vit_linear  # isort: skip
import table_language_models  # isort: skip
import vit_study  # isort: skip

TABLES = {module.NAME: module for module in (table04_vit_submodules, table07_vit_linear, table_language_models)}


@pytest.fixture(scope="module")
def networks() -> pd.DataFrame:
    return synthetic_networks()


def drawn(module, table, output) -> pd.DataFrame:
    module.draw(table, output)
    return pd.read_csv(output / f"{module.NAME}.csv")


def spread(networks, rows) -> pd.DataFrame:
    """The table with interquartile ranges of 12 % of the median in some rows; in the others it is 1 %."""
    return networks.assign(iqr_s=networks.iqr_s.mask(rows, 0.12 * networks.median_s))


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("side", ["kernel", "fully_connected"])
def test_times_that_spread_are_listed_and_not_compared(name, side, networks, tmp_path):
    table = spread(networks, (networks.implementation == side) & (networks["mode"] == "eager"))
    lines = drawn(TABLES[name], table, tmp_path)
    eager = lines["mode"] == "eager"
    assert lines.kernel_ms.notna().all()
    assert lines[f"{side}_iqr_percent"].tolist() == [12 if spreads else 1 for spreads in eager]
    assert lines.kernel_over_fully_connected.isna().equals(eager)
    if side == "kernel":
        assert lines.bmm_over_fully_connected.isna().equals(lines.bmm_ms.isna())
        number = f"{eager.sum()} of {lines[['kernel_ms', 'bmm_ms']].notna().sum().sum()} ratios are left out"
        assert number in TABLES[name].caption(table)
    assert "left out" not in TABLES[name].caption(networks)


def test_a_share_of_times_that_spread_is_left_out(networks, tmp_path):
    of_b16 = (networks.network == "vit_b16") & (networks.accuracy_class == "tf32") & (networks.part == "whole")
    table = spread(networks, of_b16)
    lines = drawn(table_6, table, tmp_path)
    (line,) = lines[lines.share_percent.isna()].to_dict("records")
    assert (line["network"], line["accuracy_class"]) == ("vit_b16", "tf32")
    assert (line["whole_iqr_percent"], line["feed_forward_linears_iqr_percent"]) == (12, 1)
    assert f"1 of {len(lines)} shares are left out" in table_6.caption(table)
    drawn(table_6, spread(networks, networks.status == "ok"), tmp_path)


def test_the_notebook_does_not_compare_times_that_spread(networks):
    rows = vit_study.chosen(networks, "float16", "", "", 0, ["kernel"])
    for some, text in ((rows.implementation == "kernel", "12 and 1"), (rows.status == "ok", "12 and 12")):
        (first, *_) = vit_study.findings(vit_study.table(spread(rows, some), vit_study.LAYERS))
        assert f"not compared to the dense 4 ms (interquartile ranges {text} % of the median)" in first
    (first, *_) = vit_study.findings(vit_study.table(rows, vit_study.LAYERS))
    assert first.endswith("kernel: 2 ms, 0.50 of the dense 4 ms.")
