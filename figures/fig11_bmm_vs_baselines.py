"""Figure 11: speed-up of bmm over min(einsum, bsr), by matrix size.

By hand: python figures/fig11_bmm_vs_baselines.py --table results/<device>/time.csv --output FOLDER
"""

from pathlib import Path

from script import main
from speedups import MATRIX_SIZE, Speedup

NAME = Path(__file__).stem
TITLE = "Figure 11: speed-up of bmm over the other baselines, by matrix size"
FIGURE = Speedup(NAME, ("bmm",), ("einsum", "bsr"), MATRIX_SIZE)
caption, missing, draw = FIGURE.caption, FIGURE.missing, FIGURE.draw

if __name__ == "__main__":
    main(__name__)
