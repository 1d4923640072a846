"""Figure 13: Figure 6 in float16 (appendix B.8).

By hand: python figures/fig13_speedup_vs_ratio_float16.py --table results/<device>/time.csv --output FOLDER
"""

from dataclasses import replace
from pathlib import Path

from fig06_speedup_vs_ratio import FIGURE as FIGURE_06
from script import main

NAME = Path(__file__).stem
TITLE = "Figure 13: speed-up of kernel over the baselines, by (b+c)/(bc), in float16"
FIGURE = replace(FIGURE_06, name=NAME, dtype="float16")
caption, missing, draw = FIGURE.caption, FIGURE.missing, FIGURE.draw

if __name__ == "__main__":
    main(__name__)
