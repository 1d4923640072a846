"""Entry point of `python -m ksmm`."""

import sys

from ksmm.cli import main

if __name__ == "__main__":
    sys.exit(main())
