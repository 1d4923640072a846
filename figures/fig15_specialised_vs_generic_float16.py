"""Figure 15: Figure 10 in float16 (appendix B.8).

By hand: python figures/fig15_specialised_vs_generic_float16.py --table results/<device>/time.csv --output FOLDER
"""

from dataclasses import replace
from pathlib import Path

from fig10_specialised_vs_generic import FIGURE as FIGURE_10
from script import main

NAME = Path(__file__).stem
TITLE = "Figure 15: speed-up of specialised over generic implementations, by matrix size, in float16"
FIGURE = replace(FIGURE_10, name=NAME, dtype="float16")
caption, missing, draw = FIGURE.caption, FIGURE.missing, FIGURE.draw

if __name__ == "__main__":
    main(__name__)
