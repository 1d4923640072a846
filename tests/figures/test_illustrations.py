"""The figures and tables that are computed from the library say what is so."""

import fig02_support
import fig03_data_flow
import fig05_algorithm2
import pandas as pd
import pytest
import table01_catalogue
import table02_bmm_vs_bsr

from ksmm import Pattern, Problem
from ksmm.problem import DTYPES


def test_figure_1_multiplies_back_to_the_dft(table, tmp_path):
    import fig01_dft_factorisation as figure

    factors, product, error = figure._factorisation()
    assert [(abs(factor) > 1e-12).sum() for factor in factors] == [32] * 4
    assert (abs(product) > 0.99).all()
    assert error < 1e-12
    figure.draw(table, tmp_path)
    entries = pd.read_csv(tmp_path / "fig01_dft_factorisation.csv")
    assert entries.groupby("matrix").size().to_dict() == {"W": 256, "K1": 32, "K2": 32, "K3": 32, "K4": 32}


def test_figure_2_counts_every_weight_once():
    pattern = Pattern(2, 3, 1, 2)
    numbers = fig02_support.weight_numbers(pattern)
    assert sorted(numbers[numbers > 0]) == list(range(1, pattern.nnz + 1))


@pytest.mark.parametrize(
    ("pattern", "layout", "passes"),
    [
        ((2, 3, 4, 5), "batch_first", 3),
        ((2, 3, 4, 5), "batch_last", 3),
        ((2, 3, 4, 1), "batch_last", 1),
        ((1, 3, 4, 1), "batch_first", 1),
    ],
)
def test_figure_3_counts_the_passes_of_bmm(pattern, layout, passes):
    assert len(fig03_data_flow.bmm_passes(Pattern(*pattern), 7, layout)) == passes


def test_figure_3_counts_what_is_moved():
    pattern, batch = Pattern(2, 3, 4, 5), 7
    problem = Problem(pattern, batch, DTYPES["float32"], "batch_first")
    (kernel,) = fig03_data_flow.kernel_passes(pattern, batch)
    assert 4 * (kernel.read + kernel.written) == problem.bytes_moved
    inputs, outputs = 7 * 40, 7 * 30
    moved = [(each.read, each.written) for each in fig03_data_flow.bmm_passes(pattern, batch)]
    assert moved == [(inputs, inputs), (inputs + 120, outputs), (outputs, outputs)]


def test_figure_5_has_the_papers_rows_and_columns():
    pattern = Pattern(2, 3, 2, 3)
    assert fig05_algorithm2.rows_and_columns(pattern, 0, 1) == ([1, 4, 7], [1, 4])
    assert fig05_algorithm2.rows_and_columns(pattern, 1, 1) == ([10, 13, 16], [7, 10])


def test_table_1_has_the_papers_families(table, tmp_path):
    table01_catalogue.draw(table, tmp_path)
    rows = pd.read_csv(tmp_path / "table01_catalogue.csv").set_index("matrix")
    assert len(rows) == 7
    assert rows.weights["Monarch"] == 12 * 8 * 4 + 4 * 8 * 8
    assert rows.example["square dyadic"] == "(1,2,2,8), (2,2,2,4), (4,2,2,2), (8,2,2,1)"


def test_table_2_shows_how_the_weights_are_stored(table, tmp_path):
    table02_bmm_vs_bsr.draw(table, tmp_path)
    example = pd.read_csv(tmp_path / "table02_bmm_vs_bsr.csv").iloc[1]
    assert example.bmm == "(6, 12, 8)"
    assert example.bsr == "(72, 48), 36 blocks of 4 × 4"
