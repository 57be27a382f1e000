"""
Figures of queues, read in rounds at a bounded cost: for metrics and ``rsmq top``.
"""

from rsmq.figures.operations import MAX_WALKED_MESSAGES as MAX_WALKED_MESSAGES
from rsmq.figures.operations import HiddenCounts as HiddenCounts
from rsmq.figures.rates import RatesReader as RatesReader
from rsmq.figures.rates import TotalRates as TotalRates
from rsmq.figures.reader import FRESH_SECONDS as FRESH_SECONDS
from rsmq.figures.reader import QueueGauges as QueueGauges
from rsmq.figures.reader import QueueReader as QueueReader
