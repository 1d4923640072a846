"""Figure 16: Figure 11 in float16 (appendix B.8).

By hand: python figures/fig16_bmm_vs_baselines_float16.py --table results/<device>/time.csv --output FOLDER
"""

from dataclasses import replace
from pathlib import Path

from fig11_bmm_vs_baselines import FIGURE as FIGURE_11
from script import main

NAME = Path(__file__).stem
TITLE = "Figure 16: speed-up of bmm over the other baselines, by matrix size, in float16"
FIGURE = replace(FIGURE_11, name=NAME, dtype="float16")
caption, missing, draw = FIGURE.caption, FIGURE.missing, FIGURE.draw

if __name__ == "__main__":
    main(__name__)
