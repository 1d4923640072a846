"""On the energies that the authors published, our aggregation gives what the paper says."""

import os
import re
from pathlib import Path

import pytest

from ksmm.energy_aggregate import aggregate_energy
from ksmm.upstream import import_upstream

import energies  # isort: skip - found through conftest
import fig07_energy  # isort: skip
import ratios  # isort: skip

VARIABLE = "KSMM_UPSTREAM_ENERGY"
BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data" / "upstream" / "1_ksmm_energy.csv"
PUBLISHED = Path(os.environ.get(VARIABLE) or BESIDE)


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    if not PUBLISHED.exists():
        pytest.skip(f"the authors' published energies are not there; ${VARIABLE} says where {PUBLISHED.name} is")
    folder = tmp_path_factory.mktemp("imported")
    (done,) = import_upstream(PUBLISHED, folder)
    return aggregate_energy(done.folder.glob("*.json"), None, None, folder / "rejected")


def test_the_kernel_takes_less_energy_where_and_as_much_as_the_paper_says(published):
    assert set(published.device) == {"tesla-v100"}
    factors = energies.over_rivals(published, "float32", rivals=("bmm", "einsum"))
    assert len(factors) == 346
    assert factors.median() == pytest.approx(0.845, abs=5e-4)
    assert 100 * (factors < 1).mean() == pytest.approx(72.5, abs=0.05)
    caption = fig07_energy.caption(published)
    assert re.search(r"Median 0\.845 times min\(bmm, einsum\), less energy in 72\.5 %: .*346 patterns, ", caption)


def test_the_kernel_is_the_better_the_larger_the_papers_proxy(published):
    factors = energies.over_rivals(published, "float32")
    proxy = ratios.attribute(factors.index, "energy_ratio")
    small, large = factors[[x < 0.01 for x in proxy]], factors[[x > 1 for x in proxy]]
    assert large.median() < 0.75 < 1 < small.median()
