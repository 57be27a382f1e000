"""
The command push.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import argument, command, options
from rsmq.cli.app.errors import Exit, Failed
from rsmq.cli.app.output import format_text
from rsmq.cli.commands.metrics_server import metrics_options, serve_metrics

if TYPE_CHECKING:
    from rsmq._sync.client import RSMQ
    from rsmq.webhooks.shared_breaker import PushTarget
    from rsmq.worker import Middleware, Worker


_COLUMNS = {
    "queue": "queue", "url": "url", "state": "state", "failures": "failures", "until": "until_ms",
    "answer": "answer",
}  # fmt: skip
_WAIT_FOR_REDIS_SECONDS = 60.0


@command(
    "push [QUEUE]",
    "rsmq push orders https://example.org/hooks --secret-file secret",
    "rsmq push --subscribers",
    "rsmq push --list",
    "rsmq push orders --resume",
)
@argument("[URL]", "target")
@options(
    """
    --secret-file FILE  Sign the requests with the secret in this file; with both, if it has two on
        two lines.
    --concurrency N  Push N messages at a time at most.  [default: 8]
    --content-type TYPE  The media type of the bodies; application/octet-stream by default.
    --dead-letter-queue QUEUE  Move messages here after six attempts. By default the queue's policy
        decides; without one it is QUEUE-dead, which is created.
    --allow-http  Allow a URL with http instead of https.
    --allow CIDR...  Allow these addresses though they are not public, as in 10.0.0.0/8; may be
        repeated.
    --proxy URL  Connect through this proxy, as in http://proxy.example.org:3128. It must refuse
        addresses that are not public. The variable RSMQ_PUSH_PROXY may have the URL instead.
    """,
    proxy={"envvar": "RSMQ_PUSH_PROXY"},
)
@metrics_options
@options("""
    --subscribers  Push to the subscribers of the QUEUE, or of all queues; rsmq subscribers adds
        them.
    --list  Show the targets and their states.
    --resume  Push again to a target that was stopped.
    --remove  Forget a target and its state.
    """)
def push(call: Call, /, queue: str | None, target: str | None, **options: Any) -> Exit | None:
    """
    Push the messages of a queue to a URL until stopped.

    Each message is a POST, signed as Standard Webhooks. A 2xx deletes it. Every other answer, and
    none within ten seconds, is an attempt that failed: it is pushed again after a pause, and moved
    to the dead-letter queue after the last attempt. 429 and 503 with Retry-After pause the target,
    410 ends the subscription and the program, with exit code 1. After ten failures in a row
    nothing is pushed for a while. Several processes may push one queue; they share these states.
    It needs the extra push. It runs until Ctrl-C or SIGTERM.

    With --subscribers, each message of the QUEUE, or of all queues, is pushed to all its
    subscribers. Changes of rsmq subscribers are noticed within seconds.

    --list shows the targets, --resume lets messages be pushed again at once, also after a 410, and
    --remove forgets the state of a target. With a QUEUE and a URL they act on this target only. A
    running process stores the state of its target again.
    """
    of = SimpleNamespace(**options)
    reach = {name: options[name] for name in ("allow", "allow_http", "proxy")}
    if of.list + of.resume + of.remove > 1:
        raise click.UsageError("Use one of --list, --resume and --remove.")
    others = of.list or of.resume or of.remove or target or of.secret_file or of.content_type
    if of.subscribers and others:
        raise click.UsageError(
            "--subscribers goes with a QUEUE, --allow-http, --allow, --proxy and --metrics-port. "
            "rsmq subscribers add sets the rest."
        )
    if of.subscribers:
        _push_to_subscribers(call, queue, reach, of)
        return None
    if of.list:
        _list(call, queue, target)
        return None
    if queue is None:
        raise click.UsageError("Missing argument 'QUEUE'.")
    if of.resume or of.remove:
        return _change(call, queue, target, is_removal=of.remove)
    if target is None or "://" not in target:
        fault = "Missing argument 'URL'." if target is None else f"{target!r} is not a URL."
        raise click.UsageError(f"{fault} To add a message to a queue, use rsmq send.")
    from rsmq.webhooks.signatures import read_secrets  # noqa: PLC0415 - takes time
    from rsmq.worker import Worker  # noqa: PLC0415 - as above

    with call.open(retry_deadline=None) as rsmq:
        worker = Worker(rsmq, concurrency=of.concurrency)
        worker.webhook(
            queue,
            target,
            secret=None if of.secret_file is None else read_secrets(Path(of.secret_file)),
            content_type=of.content_type,
            dead_letter_queue=of.dead_letter_queue,
            **reach,
        )
        for each in _serve(of):
            worker.use(each)
        _run(call, worker, queue)
    return None


def _push_to_subscribers(
    call: Call, queue: str | None, reach: dict[str, Any], of: SimpleNamespace
) -> None:
    from rsmq.push.pusher import SubscriberPusher  # noqa: PLC0415 - takes time

    with call.open(retry_deadline=None) as rsmq:
        pusher = SubscriberPusher(rsmq, queue, middleware=_serve(of), **reach)
        _begin(call, rsmq, queue or "subscribers", lambda: None)
        pusher.run()


def _serve(of: SimpleNamespace) -> list[Middleware]:
    """Serve metrics if a port was passed; return the middleware that counts."""
    if of.metrics_port is None:
        return []
    from rsmq.metrics import Metrics  # noqa: PLC0415 - needs an extra

    serve_metrics(of.metrics_port, of.metrics_host)
    return [Metrics()]


def _begin(call: Call, rsmq: RSMQ, queue: str, name: Callable[[], str | None]) -> None:
    """Begin to log, and wait for Redis."""
    from rsmq.cli.app.wait_for_redis import ask_for_queue, wait_for_redis  # noqa: PLC0415 - takes time
    from rsmq.worker.logging import log_to_standard_error  # noqa: PLC0415 - as above

    log_to_standard_error("info", name, as_json=call.as_json)
    wait_for_redis(partial(ask_for_queue, rsmq, queue), _WAIT_FOR_REDIS_SECONDS, call.out.note)


def _run(call: Call, worker: Worker, queue: str) -> None:
    from rsmq.worker import Middleware  # noqa: PLC0415 - takes time

    class StopWhenGone(Middleware):
        """Stops the worker when the target has ended the subscription."""

        target: str | None = None

        def after_target_change(self, queue: str, target: str, state: str, answer: str) -> None:  # noqa: ARG002 - a hook
            if state == "gone":
                self.target = target
                worker.stop()

    gone = StopWhenGone()
    worker.use(gone)
    _begin(call, worker.rsmq, queue, lambda: worker.name)
    worker.run()
    if gone.target is not None:
        raise Failed(
            f"{gone.target} has answered 410: the subscription has ended",
            exit=Exit.NOT_ALL,
            code="gone",
            hint=f"The messages stay in the queue. rsmq push {queue} --resume allows the next "
            "start.",
        )


def _list(call: Call, queue: str | None, url: str | None) -> None:
    with call.open() as rsmq:
        targets = [target for _, target in _find(rsmq, queue, url)]
    call.out.table(targets, _COLUMNS)


def _change(call: Call, queue: str, url: str | None, *, is_removal: bool) -> Exit | None:
    from rsmq.webhooks.shared_breaker import remove_target, resume_target  # noqa: PLC0415 - takes time

    change, word, otherwise = (
        (remove_target, "removed", "was removed already")
        if is_removal
        else (resume_target, "resumed", "was not stopped")
    )
    with call.open() as rsmq:
        results = [(target, change(rsmq, field)) for field, target in _find(rsmq, queue, url)]
    places = [f"{format_text(each.queue)} -> {format_text(each.url)}" for each, _ in results]
    texts = [word if done else otherwise for _, done in results]
    call.out.result(
        [{"queue": target.queue, "url": target.url, word: done} for target, done in results],
        map("{}: {}".format, places, texts),
    )
    if results:
        return None
    call.out.note(f"{format_text(queue)}: no such target. rsmq push --list shows all targets.")
    return Exit.NOT_ALL


def _find(rsmq: RSMQ, queue: str | None, url: str | None) -> list[tuple[str, PushTarget]]:
    """Return the targets of a queue and a URL, with their fields; None is any."""
    from rsmq.webhooks.shared_breaker import list_targets  # noqa: PLC0415 - takes time
    from rsmq.webhooks.targets import target_field  # noqa: PLC0415 - as above

    if queue is not None:
        rsmq.namespace.queue(queue)
    found = [
        (field, target)
        for field, target in list_targets(rsmq)
        if queue is None or target.queue == queue
        if url is None or field == target_field(target.queue, url)
    ]
    return sorted(found, key=lambda each: (each[1].queue, each[1].url, each[0]))
