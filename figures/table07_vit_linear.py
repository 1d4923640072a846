"""Table 7: the linear layers of a vision transformer, Kronecker-sparse against dense, with and without bias.

By hand: python figures/table07_vit_linear.py --table results/<device>/networks.csv --output FOLDER
"""

from pathlib import Path

from networks import Ratios
from script import main

NAME = Path(__file__).stem
TITLE = "Table 7: acceleration of the linear layers of a vision transformer"
STUDY = "networks"
PAPER = {
    "linear_n_n": ("0.82", "0.50"),
    "linear_n_n_bias": ("0.97", "0.66"),
    "linear_4n_n": ("0.80", "0.78"),
    "linear_4n_n_bias": ("0.93", "0.90"),
    "linear_n_4n": ("0.91", "0.58"),
    "linear_n_4n_bias": ("0.94", "0.61"),
}
TABLE = Ratios(
    NAME,
    "Linear layers with the chains of appendix B.7. 4N × N has N inputs and 4N outputs; N × 4N, for which the appendix "
    "prints the chain of 4N × N again, has the transposed chain.",
    tuple(PAPER),
    chosen=lambda table: table.network.str.startswith("vit"),
    paper={part: {"bmm": bmm, "kernel": kernel} for part, (bmm, kernel) in PAPER.items()},
)
caption, missing, draw = TABLE.caption, TABLE.missing, TABLE.draw

if __name__ == "__main__":
    main(__name__)
