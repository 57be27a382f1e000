"""
Ready-made middleware, which is passed as ``Worker(..., middleware=[...])``.

    from rsmq.worker.middlewares import LockByKey, RateLimit

    worker = Worker(rsmq, middleware=[RateLimit(100, 60)])
"""

from rsmq.worker.middlewares.call_context import CallContext
from rsmq.worker.middlewares.carry_headers import CarryHeaders
from rsmq.worker.middlewares.lock_by_key import LockByKey
from rsmq.worker.middlewares.permission import Permission
from rsmq.worker.middlewares.rate_limit import RateLimit
from rsmq.worker.middlewares.slow_calls import SlowCalls

__all__ = ["CallContext", "CarryHeaders", "LockByKey", "Permission", "RateLimit", "SlowCalls"]
