"""
The runtime of a worker: its loop, the handler calls, and the messages in flight.
"""
