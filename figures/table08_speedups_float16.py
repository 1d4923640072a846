"""Table 8: Table 3 in float16 (appendix B.8).

By hand: python figures/table08_speedups_float16.py --table results/<device>/time.csv --output FOLDER
"""

from dataclasses import replace
from pathlib import Path

from script import main
from table03_speedups import TABLE as TABLE_03

NAME = Path(__file__).stem
TITLE = "Table 8: percentage of patterns where one side is faster, and median acceleration, in float16"
_PAPER = ("87%", "", "", "", "")
TABLE = replace(
    TABLE_03,
    name=NAME,
    dtype="float16",
    paper_dtype="float16",
    rows=tuple(replace(row, paper=paper) for row, paper in zip(TABLE_03.rows, _PAPER, strict=True)),
)
caption, missing, draw = TABLE.caption, TABLE.missing, TABLE.draw

if __name__ == "__main__":
    main(__name__)
