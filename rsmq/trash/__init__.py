"""
Deletions that can be undone for ten minutes.
"""

from rsmq.trash.deletion import Deletion as Deletion
from rsmq.trash.deletion import DeletionKind as DeletionKind
from rsmq.trash.deletion import DeletionState as DeletionState
from rsmq.trash.deletion import Restored as Restored
