"""Figure 6: speed-up of the kernel over min(bmm, einsum, bsr), by (b+c)/(bc).

By hand: python figures/fig06_speedup_vs_ratio.py --table results/<device>/time.csv --output FOLDER
"""

from pathlib import Path

from ratios import RIVALS
from script import main
from speedups import MEMORY_RATIO, Speedup

NAME = Path(__file__).stem
TITLE = "Figure 6: speed-up of kernel over the baselines, by (b+c)/(bc)"
FIGURE = Speedup(NAME, ("kernel",), RIVALS, MEMORY_RATIO, only_where_specialised_wins=True)
caption, missing, draw = FIGURE.caption, FIGURE.missing, FIGURE.draw

if __name__ == "__main__":
    main(__name__)
