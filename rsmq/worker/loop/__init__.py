"""
The thread that makes all calls of a running worker to Redis, its heartbeat and its shutdown.
"""
