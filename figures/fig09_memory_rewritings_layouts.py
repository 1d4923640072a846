"""Figure 9: share of bmm's time that goes into rewriting memory, by (b+c)/(bc), in both layouts.

By hand: python figures/fig09_memory_rewritings_layouts.py --table results/<device>/time.csv --output FOLDER
"""

from pathlib import Path

from rewritings import Rewritings
from script import main

from ksmm.names import LAYOUTS

NAME = Path(__file__).stem
TITLE = "Figure 9: share of bmm's time spent on memory rewritings, in both layouts"
FIGURE = Rewritings(NAME, LAYOUTS)
caption, missing, draw = FIGURE.caption, FIGURE.missing, FIGURE.draw

if __name__ == "__main__":
    main(__name__)
