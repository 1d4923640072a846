"""Figure 12: time in batch_first over time in batch_last, for each implementation.

By hand: python figures/fig12_layouts.py --table results/<device>/time.csv --output FOLDER
"""

from pathlib import Path

from layouts import Layouts
from script import main

NAME = Path(__file__).stem
TITLE = "Figure 12: effect of the layout on each implementation"
FIGURE = Layouts(NAME)
caption, missing, draw = FIGURE.caption, FIGURE.missing, FIGURE.draw

if __name__ == "__main__":
    main(__name__)
