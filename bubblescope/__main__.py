"""`python -m bubblescope`."""

import sys

from bubblescope.cli import main

sys.exit(main())
