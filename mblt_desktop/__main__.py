"""`python -m mblt_desktop`: the same as the `mblt-desktop` command."""

from __future__ import annotations

import sys

from mblt_desktop.cli import main

if __name__ == "__main__":
    sys.exit(main())
