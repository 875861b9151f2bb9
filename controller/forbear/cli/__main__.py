"""Run the command line with ``python -m forbear.cli``."""

from __future__ import annotations

import sys

from forbear.cli import main

sys.exit(main())
