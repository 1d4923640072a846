"""Figure 4: share of bmm's time that goes into rewriting memory, by (b+c)/(bc), in batch_first.

By hand: python figures/fig04_memory_rewritings.py --table results/<device>/time.csv --output FOLDER
"""

from pathlib import Path

from rewritings import Rewritings
from script import main

NAME = Path(__file__).stem
TITLE = "Figure 4: share of bmm's time spent on memory rewritings, by (b+c)/(bc)"
FIGURE = Rewritings(NAME, ("batch_first",))
caption, missing, draw = FIGURE.caption, FIGURE.missing, FIGURE.draw

if __name__ == "__main__":
    main(__name__)
