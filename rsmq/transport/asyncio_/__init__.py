"""
The callers of the asyncio client: connections of event loops.
"""
