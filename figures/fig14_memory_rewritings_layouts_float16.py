"""Figure 14: Figure 9 in float16 (appendix B.8).

By hand: python figures/fig14_memory_rewritings_layouts_float16.py --table results/<device>/time.csv --output FOLDER
"""

from dataclasses import replace
from pathlib import Path

from fig09_memory_rewritings_layouts import FIGURE as FIGURE_09
from script import main

NAME = Path(__file__).stem
TITLE = "Figure 14: share of bmm's time spent on memory rewritings, in both layouts, in float16"
FIGURE = replace(FIGURE_09, name=NAME, dtype="float16")
caption, missing, draw = FIGURE.caption, FIGURE.missing, FIGURE.draw

if __name__ == "__main__":
    main(__name__)
