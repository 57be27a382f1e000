"""
The clock of everything that waits.
"""

from __future__ import annotations

import time
from functools import partial

# An object that is not a plain function: freezegun, which stops the time of memory://, would also
# replace the clock of the watchers.
now = partial(time.monotonic)
