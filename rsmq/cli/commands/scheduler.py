"""
The command scheduler.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command, options

if TYPE_CHECKING:
    from rsmq.schedules.scheduler import Scheduler


@command("scheduler", "rsmq scheduler", "rsmq scheduler --once")
@options("""
    --once  Send what is due now, and end.
    --wait-for-redis DURATION  Wait so long at the start for a Redis that is away.  [default: 60]
    """)
def scheduler(call: Call, *, once: bool, wait_for_redis: float) -> None:
    """
    Send the messages of schedules until stopped.

    Workers of this library do it too, so it is for namespaces whose workers are all of other
    languages. Any number of these processes may run; each time is sent once. It runs until Ctrl-C
    or SIGTERM. With --once it can be started by cron, or to check.
    """
    from rsmq.cli.app.wait_for_redis import ask_for_queue  # noqa: PLC0415 - takes time
    from rsmq.cli.app.wait_for_redis import wait_for_redis as wait  # noqa: PLC0415 - as above
    from rsmq.errors.printable import format_count  # noqa: PLC0415 - as above
    from rsmq.schedules.scheduler import Scheduler  # noqa: PLC0415 - as above
    from rsmq.worker.logging import log_to_standard_error  # noqa: PLC0415 - as above

    log_to_standard_error("info", lambda: None, as_json=call.as_json)
    with call.open(retry_deadline=None) as rsmq:
        firing = Scheduler(rsmq, looks_at_once=True)
        wait(
            partial(ask_for_queue, rsmq, "scheduler"), 0 if once else wait_for_redis, call.out.note
        )
        if once:
            firing.fire_due(raises=True)
        else:
            _run(call, firing)
    call.out.result({"sent": firing.fired}, f"sent {format_count(firing.fired, 'message')}")


def _run(call: Call, firing: Scheduler) -> None:
    from rsmq.worker.loop.shutdown import Signals  # noqa: PLC0415 - takes time

    def stop(_: str) -> bool:
        firing.stop()
        return True

    with Signals(stop, lambda: "the scheduler"):
        call.out.note("The scheduler runs. Ctrl-C or SIGTERM stops it.")
        firing.run()
