"""Table 4: a vision transformer and its parts, Kronecker-sparse against dense, with the chains of appendix B.7.

By hand: python figures/table04_vit_submodules.py --table results/<device>/networks.csv --output FOLDER
"""

from pathlib import Path

from networks import Ratios
from script import main

NAME = Path(__file__).stem
TITLE = "Table 4: acceleration of a vision transformer and its parts"
STUDY = "networks"
TABLE = Ratios(
    NAME,
    "A vision transformer with Kronecker-sparse queries, keys, values and both layers of the feed-forward network. "
    "chains: those of appendix B.7 (paper), or of ksmm.default_chain with a quarter of the weights at most (default; "
    "of timm's network, which has the three projections in one layer, the others, too).",
    ("linear_n_n", "feed_forward", "attention", "block", "whole"),
    chosen=lambda table: table.network.str.startswith("vit"),
    paper={
        "linear_n_n": {"bmm": "0.82", "kernel": "0.50"},
        "feed_forward": {"bmm": "0.91", "kernel": "0.77"},
        "attention": {"bmm": "0.87", "kernel": "0.79"},
        "block": {"bmm": "0.90", "kernel": "0.78"},
        "whole": {"bmm": "0.89", "kernel": "0.78"},
    },
)
caption, missing, draw = TABLE.caption, TABLE.missing, TABLE.draw

if __name__ == "__main__":
    main(__name__)
