"""
The APIs of other queues on this library's queues, for programs that migrate.

``rsmq.compat.rfq`` has that of rfq. PyRSMQ's is ``rsmq.pyrsmq``.
"""
