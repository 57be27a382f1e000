"""
The history of queues: messages sent and received in each minute, and the gauges.
"""

from rsmq.history.recorder import HistoryRecorder as HistoryRecorder
from rsmq.history.records import History as History
from rsmq.history.records import HistoryGap as HistoryGap
