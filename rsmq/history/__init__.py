"""
The history of queues: messages sent and received in each minute, the gauges, calls by task.
"""

from rsmq.history.call_records import Percentiles as Percentiles
from rsmq.history.call_records import TaskFigures as TaskFigures
from rsmq.history.recorder import HistoryRecorder as HistoryRecorder
from rsmq.history.records import History as History
from rsmq.history.records import HistoryGap as HistoryGap
