"""Table 3: how often one implementation, or the best of several, is faster than others, and by how much.

By hand: python figures/table03_speedups.py --table results/<device>/time.csv --output FOLDER
"""

from pathlib import Path

from comparisons import Comparisons, Row
from ratios import ADDED, GENERIC, KNOWN_RIVALS, RIVALS, SPECIALISED
from script import main

NAME = Path(__file__).stem
TITLE = "Table 3: percentage of patterns where one side is faster, and median acceleration"
TABLE = Comparisons(
    NAME,
    (
        Row(SPECIALISED, GENERIC),
        Row(("bmm",), ("einsum", "bsr"), paper="93%"),
        Row(("kernel",), (*RIVALS, *GENERIC), paper="88%"),
        Row(("kernel",), KNOWN_RIVALS),
        Row(("kernel",), (ADDED,)),
    ),
)
caption, missing, draw = TABLE.caption, TABLE.missing, TABLE.draw

if __name__ == "__main__":
    main(__name__)
