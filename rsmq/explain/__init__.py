"""
Why a message does not move, why a queue is not drained, and what has happened to a message.
"""

from rsmq.explain.async_reader import find_holders as find_holders
from rsmq.explain.async_reader import observe_message as observe_message
from rsmq.explain.async_reader import observe_queue as observe_queue
from rsmq.explain.causes import Cause as Cause
from rsmq.explain.explanation import Explanation as Explanation
from rsmq.explain.explanation import FoundCause as FoundCause
from rsmq.explain.explanation import explain_message as explain_message
from rsmq.explain.explanation import explain_queue as explain_queue
from rsmq.explain.observed import ObservedMessage as ObservedMessage
from rsmq.explain.observed import ObservedQueue as ObservedQueue
from rsmq.explain.observed import QueueRates as QueueRates
from rsmq.explain.timeline import EventKind as EventKind
from rsmq.explain.timeline import TimelineEvent as TimelineEvent
from rsmq.explain.timeline import message_timeline as message_timeline
