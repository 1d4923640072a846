"""Where the user's own files of ksmm are: libraries that were built, times that were measured."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path | None:
    """$XDG_CACHE_HOME/ksmm, else ~/.cache/ksmm; None for a user without a home, as in some containers.

    No folder that all users may write to stands in for it: what lies there is loaded as code.
    """
    wanted = os.environ.get("XDG_CACHE_HOME")
    if wanted:
        return Path(wanted) / "ksmm"
    try:
        return Path.home() / ".cache" / "ksmm"
    except RuntimeError:  # neither HOME nor an entry in the list of users
        return None
