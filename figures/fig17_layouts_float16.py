"""Figure 17: Figure 12 in float16 (appendix B.8).

By hand: python figures/fig17_layouts_float16.py --table results/<device>/time.csv --output FOLDER
"""

from dataclasses import replace
from pathlib import Path

from fig12_layouts import FIGURE as FIGURE_12
from script import main

NAME = Path(__file__).stem
TITLE = "Figure 17: effect of the layout on each implementation, in float16"
FIGURE = replace(FIGURE_12, name=NAME, dtype="float16")
caption, missing, draw = FIGURE.caption, FIGURE.missing, FIGURE.draw

if __name__ == "__main__":
    main(__name__)
