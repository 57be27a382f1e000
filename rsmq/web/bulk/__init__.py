"""
Operations of many messages, which are stored, and run in steps by any process of the server.
"""
