"""`python -m verblint`."""

import sys

from verblint.cli import main

sys.exit(main())
