"""
The context managers of the clients: ``consume`` and ``processing``.
"""
