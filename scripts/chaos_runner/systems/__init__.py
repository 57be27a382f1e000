"""
The worker of this library, Celery, RQ and arq, for the same experiment with each.

The programs run in environments of their own, so they import nothing of the library, except ours.
Variables of the environment say where: ``CHAOS_PORT``, ``CHAOS_FILE`` and ``CHAOS_IS_SAFE``.
"""
