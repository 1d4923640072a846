"""Figure 10: speed-up of min(kernel, bmm, einsum, bsr) over min(dense, sparse), by matrix size.

By hand: python figures/fig10_specialised_vs_generic.py --table results/<device>/time.csv --output FOLDER
"""

from pathlib import Path

from ratios import GENERIC, SPECIALISED
from script import main
from speedups import MATRIX_SIZE, Speedup

NAME = Path(__file__).stem
TITLE = "Figure 10: speed-up of specialised over generic implementations, by matrix size"
FIGURE = Speedup(NAME, SPECIALISED, GENERIC, MATRIX_SIZE)
caption, missing, draw = FIGURE.caption, FIGURE.missing, FIGURE.draw

if __name__ == "__main__":
    main(__name__)
