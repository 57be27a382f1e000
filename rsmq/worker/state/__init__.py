"""
The records of a worker: lanes, messages in flight, calls, failures, and the states of a message.
"""
