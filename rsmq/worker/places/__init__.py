"""
Where a worker receives: the client and its cells, and the workers that have died there.
"""
