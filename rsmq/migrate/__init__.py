"""
Migration of queues from other systems: rfq, BRPOPLPUSH lists, Rqueue, RedisRQ, and other RSMQ
queues.
"""

from rsmq.errors import NotPossible, RunReplaced, SourceChanged, SourceNotFound
from rsmq.migrate.bridge import Bridge, Inward
from rsmq.migrate.copier import copy
from rsmq.migrate.mover import move
from rsmq.migrate.outward import Outward, ToList, ToRFQ, ToStream
from rsmq.migrate.report import MigrationReport as Report
from rsmq.migrate.report import Note
from rsmq.migrate.server import Server
from rsmq.migrate.sources.base import Source
from rsmq.migrate.sources.item import Found, Item, PeriodicMessage
from rsmq.migrate.sources.lists import Lists
from rsmq.migrate.sources.redisrq import RedisRQ
from rsmq.migrate.sources.rfq import RFQ
from rsmq.migrate.sources.rqueue import Rqueue
from rsmq.migrate.sources.rsmq import RsmqQueues as Queues
from rsmq.migrate.target import Progress
from rsmq.migrate.verification import verify

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
    "PeriodicMessage",
    "Progress",
    "Queues",
    "RedisRQ",
    "Report",
    "Rqueue",
    "RunReplaced",
    "Server",
    "Source",
    "SourceChanged",
    "SourceNotFound",
    "ToList",
    "ToRFQ",
    "ToStream",
    "copy",
    "move",
    "verify",
]
