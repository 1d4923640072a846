"""Table 5: how often the kernel is faster than everything else, with all implementations in the same layout.

By hand: python figures/table05_layouts.py --table results/<device>/time.csv --output FOLDER
"""

from pathlib import Path

from comparisons import Comparisons, Row
from ratios import GENERIC, KNOWN_RIVALS, RIVALS
from script import main

NAME = Path(__file__).stem
TITLE = "Table 5: kernel against all others, in each layout"
TABLE = Comparisons(
    NAME,
    (
        Row(("kernel",), (*RIVALS, *GENERIC), "batch_first", paper="20.0% (×1.28)"),
        Row(("kernel",), (*RIVALS, *GENERIC), "batch_last", paper="88.1% (×1.39)"),
        Row(("kernel",), KNOWN_RIVALS, "batch_first"),
        Row(("kernel",), KNOWN_RIVALS, "batch_last"),
    ),
)
caption, missing, draw = TABLE.caption, TABLE.missing, TABLE.draw

if __name__ == "__main__":
    main(__name__)
