"""
``python -m rsmq``: the program ``rsmq``.
"""

from __future__ import annotations

import sys

from rsmq.cli import main

if __name__ == "__main__":
    sys.exit(main())
