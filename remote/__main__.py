"""`python -m remote` from a checkout, and the entry of the shipped zip."""

from __future__ import annotations

import sys

from remote.cli import main

if __name__ == "__main__":
    sys.exit(main())
