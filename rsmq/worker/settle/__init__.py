"""
The outcomes of messages, written to Redis, and the release of messages.
"""
