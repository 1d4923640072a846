"""What is fastest where, as far as it was measured: `python -m ksmm tune` writes it, the kernel and "auto" look it up.

Two files tell: one that ships with the package (ksmm/tuned/<device>.json) and the user's own, which wins. A problem
that neither of them knows is left to the kernel's cost model. Importing this package needs torch and nothing more.
"""

from ksmm.tuning.comparison import summary, untuned_over_tuned
from ksmm.tuning.entry import Choice, Entry, bucket
from ksmm.tuning.file import TuningError, TuningFile, read_tuning, write_tuning
from ksmm.tuning.knowledge import forget, known, remembered_hash, user_file

__all__ = [
    "Choice",
    "Entry",
    "TuningError",
    "TuningFile",
    "bucket",
    "forget",
    "known",
    "read_tuning",
    "remembered_hash",
    "summary",
    "untuned_over_tuned",
    "user_file",
    "write_tuning",
]
