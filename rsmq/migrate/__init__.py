"""
Moving over from other systems: rfq, BRPOPLPUSH lists, Rqueue, RedisRQ, and other RSMQ queues.
"""

from rsmq.errors import NotPossible, SourceChanged, SourceNotFound
from rsmq.migrate.arriving import Progress
from rsmq.migrate.bridging import Bridge, Inward, Outward, ToList, ToRFQ
from rsmq.migrate.copying import copy
from rsmq.migrate.item import Found, Item
from rsmq.migrate.lists import Lists
from rsmq.migrate.moving import move
from rsmq.migrate.queues import Queues
from rsmq.migrate.redisrq import RedisRQ
from rsmq.migrate.report import Note, Report
from rsmq.migrate.rfq import RFQ
from rsmq.migrate.rqueue import Rqueue
from rsmq.migrate.server import Server
from rsmq.migrate.source import Source

__all__ = [
    "RFQ",
    "Bridge",
    "Found",
    "Inward",
    "Item",
    "Lists",
    "NotPossible",
    "Note",
    "Outward",
    "Progress",
    "Queues",
    "RedisRQ",
    "Report",
    "Rqueue",
    "Server",
    "Source",
    "SourceChanged",
    "SourceNotFound",
    "ToList",
    "ToRFQ",
    "copy",
    "move",
]
