"""
The listeners, webhooks and middleware of a worker, which its program adds before it starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, overload

from rsmq._sync.client import RSMQ
from rsmq.codecs import Codec
from rsmq.codecs.type_variables import B_co, D, E
from rsmq.errors import InvalidFormat, show, show_type
from rsmq.schedules.arguments import ScheduleArguments
from rsmq.schedules.definition import ScheduleDefinition, make_definition
from rsmq.worker.handler_group import HandlerGroup
from rsmq.worker.listener import (
    HandlerDecorator,
    Handlers,
    Listener,
    ListenerOptions,
    WebhookOptions,
    check_option_names,
    make_listener,
    with_levels,
)
from rsmq.worker.logging import Logging
from rsmq.worker.middleware import Middleware
from rsmq.worker.router import Router
from rsmq.worker.routing import Route

if TYPE_CHECKING:
    from rsmq.worker.webhook import Webhook

Function = TypeVar("Function", bound=Callable[..., Any])
M = TypeVar("M", bound=Middleware)


class Configuration(Generic[B_co]):
    """
    The part of a worker that its program chooses; ``Worker`` is its subclass, and runs it.

    Attributes:
        rsmq: the client.
        name: the worker's name; None until it starts if it was made without one.
    """

    def __init__(
        self,
        rsmq: RSMQ[B_co],
        name: str | None,
        middleware: Iterable[Middleware] | Middleware,
    ) -> None:
        """
        Make a configuration without listeners.

        Args:
            rsmq: a synchronous client.
            name: the worker's name.
            middleware: hooks; ``Logging`` is added before them.

        Raises:
            InvalidFormat: client or middleware is invalid.
        """
        if not isinstance(rsmq, RSMQ):
            raise InvalidFormat(
                "client",
                value=show_type(rsmq),
                hint="Pass an RSMQ, as in Worker(RSMQ.from_url('redis://127.0.0.1:6379/0')). "
                "It also runs async handlers.",
            )
        self.rsmq: RSMQ[B_co] = rsmq
        self.name: str | None = name
        self._middleware: list[Middleware] = [Logging()]
        self._listeners: dict[str, Listener] = {}
        #: The queues of listeners that do not receive, as the user has named them.
        self._inactive: set[str] = set()
        self._webhooks: list[Webhook] = []
        self._schedules: dict[str, ScheduleDefinition] = {}
        for each in [middleware] if isinstance(middleware, Middleware) else middleware:
            self.use(each)

    @property
    def _is_running(self) -> bool:
        return False

    @property
    def queues(self) -> list[str]:
        """The names of the queues that have listeners."""
        return list(self._listeners)

    @property
    def active_queues(self) -> list[str]:
        """The names of the queues whose listeners are active; see ``stop_listener``."""
        return [
            name
            for name, listener in self._listeners.items()
            if listener.declared_queue not in self._inactive
        ]

    def start_listener(self, queue: str) -> None:
        """
        Receive messages for a listener that was declared with ``active=False``, or was stopped.

        From any thread, also in handlers, and before the worker runs. It returns at once, and does
        nothing if the listener is active.

        Args:
            queue: the queue that the listener was declared with; its levels are included.

        Raises:
            InvalidFormat: the worker has no listener of this queue.
        """
        self._check_declared(queue)
        self._inactive.discard(queue)
        self._apply_switches()

    def stop_listener(self, queue: str) -> None:
        """
        Receive nothing more for a listener, in this worker only.

        Messages that wait for a slot are released, running calls end as usual. It returns at once,
        from any thread, also in handlers; the worker does it in its next turn, a few milliseconds
        later. Other workers still receive from the queue; ``pause_queue`` stops them all. A stopped
        listener stays stopped if the worker is stopped and started again.

        Args:
            queue: the queue that the listener was declared with; its levels are included.

        Raises:
            InvalidFormat: the worker has no listener of this queue.
        """
        self._check_declared(queue)
        self._inactive.add(queue)
        self._apply_switches()

    def _check_declared(self, queue: object) -> None:
        declared = list(dict.fromkeys(each.declared_queue for each in self._listeners.values()))
        if queue not in declared:
            raise InvalidFormat(
                "queue",
                value=show(queue),
                hint=f"This worker has listeners of {', '.join(declared) or 'no queue'}.",
            )

    def _apply_switches(self) -> None:
        """Let the loop start and stop listeners, if the worker runs."""

    def use(self, middleware: Middleware) -> None:
        """
        Add a middleware after the existing ones; only while the worker does not run.

        Args:
            middleware: hooks.

        Raises:
            InvalidFormat: it is not an object of a subclass of Middleware, or the worker runs.
        """
        if not isinstance(middleware, Middleware):
            raise InvalidFormat(
                "middleware",
                value=show(middleware),
                hint="It is an object of a subclass of Middleware, created with parentheses: "
                "middleware=[Counting()].",
            )
        self._refuse_while_running()
        self._middleware.append(middleware)

    def find(self, kind: type[M]) -> M | None:
        """
        Return the worker's first middleware of a class; None if there is none.

        Args:
            kind: a class.
        """
        return next((each for each in self._middleware if isinstance(each, kind)), None)

    def has(self, kind: type[Middleware]) -> bool:
        """
        Return whether the worker has a middleware of a class.

        Args:
            kind: a class.
        """
        return self.find(kind) is not None

    @overload
    def listener(
        self,
        queue: str,
        *,
        codec: None = None,
        batch: None = None,
        **options: Unpack[ListenerOptions],
    ) -> HandlerDecorator[B_co]: ...
    @overload
    def listener(
        self,
        queue: str,
        *,
        codec: Codec[E, D],
        batch: None = None,
        **options: Unpack[ListenerOptions],
    ) -> HandlerDecorator[D]: ...
    @overload
    def listener(
        self,
        queue: str,
        *,
        codec: Codec[E, D] | None,
        batch: None = None,
        **options: Unpack[ListenerOptions],
    ) -> HandlerDecorator[B_co | D]: ...
    @overload
    def listener(
        self,
        queue: str,
        *,
        codec: None = None,
        batch: int | tuple[int, float],
        **options: Unpack[ListenerOptions],
    ) -> HandlerDecorator[list[B_co]]: ...
    @overload
    def listener(
        self,
        queue: str,
        *,
        codec: Codec[E, D],
        batch: int | tuple[int, float],
        **options: Unpack[ListenerOptions],
    ) -> HandlerDecorator[list[D]]: ...
    @overload
    def listener(
        self,
        queue: str,
        *,
        codec: Codec[E, D] | None,
        batch: int | tuple[int, float],
        **options: Unpack[ListenerOptions],
    ) -> HandlerDecorator[list[B_co | D]]: ...
    def listener(
        self,
        queue: str,
        *,
        codec: Codec | None = None,
        batch: int | tuple[int, float] | None = None,
        **options: Unpack[ListenerOptions],
    ) -> Callable[[Function], Function]:
        """
        Return a decorator: the function is called with the messages of a queue.

        The function takes the decoded body, or the body and the message (a ``Delivery``); with
        ``batch`` lists of both.

        Args:
            queue: the queue's name; each queue has one listener.
            codec: decodes bodies; None is the client's.
            batch: 1 to 10,000: the function takes lists of up to so many messages. If it returns,
                all count as handled, except those for which ``message.fail(error)`` was called. If
                it raises, the others have failed too. None is one message for each call. A tuple
                such as ``(100, 5)`` adds seconds: messages wait in the queue until 100 are visible,
                or one of them has been visible for 5 seconds by the server's clock. Waiting
                messages are not received, so they have no lease and are no attempts. With
                ``run(until_empty=True)`` no batch waits.
            **options: the following.

        Options:
            vt: the visibility timeout, seconds from 0.1: after a crash the message becomes visible
                again when it ends. None is the queue's own.
            concurrency: maximum number of concurrent calls of this function; None is the worker's.
                A pair (minimum, maximum) also keeps ``minimum`` of the worker's slots for this
                function: no other one uses them, also while its queue is empty. The calls beyond
                the minimum need slots that no listener keeps. The worker does not start if its
                concurrency is below the sum of the minima, plus one if a listener has none.
            priority: messages of queues with a higher number always go first. But a queue that has
                waited for ten seconds gets one call in between, unless the worker was made with
                ``strict_priority=True``.
            weight: 1 to 100: the share of the calls that this queue begins, among the queues of the
                same priority that have due messages. With 3 beside 1 it begins three of four calls,
                however long they take. A queue without due messages leaves its share to the others,
                and does not save it up. Only this worker follows it: other consumers of the queue
                receive as they do.
            max_retries: how often a message is tried again, from 0: the maximum number of attempts
                is one more. None is 5 with a dead_letter_queue or drop; else the limit of the
                queue's own dead-letter policy; else forever.
            backoff: the pause before the next attempt: ``exponential(first, cap)``,
                ``fixed(seconds)``, seconds, a list of seconds by attempt (the last one repeats),
                or a function of the attempt, from 1. None is exponential(1, 300). For a message
                that is deferred (``Defer``), the number of its deferrals counts, if it is higher.
            no_retry: exceptions after which a message is not tried again.
            retry_only: the only exceptions after which a message is tried again; a crash or a
                call that exceeds max_runtime is one of the others. None passed is all of them.
            dead_letter_queue: the queue that a message is moved to after the last attempt, with the
                reason. It must exist, or be created. None is that of the queue's own policy.
            drop: True deletes the message instead.
            retry_forever: True retries a message forever if nothing else is set; then the worker
                does not warn at its start that nothing is set.
            max_runtime: the longest time a call may take, seconds, checked once a second. After
                that the message counts as failed, and the worker no longer waits for the function:
                a thread runs until it ends by itself, a task is cancelled. An async function that
                blocks its event loop for so long, or for 60 s if this is not set, ends the worker.
            max_deferrals: how often a message may be deferred (``Defer``) before it fails: how many
                of its receives count as not begun.
            max_deferred_seconds: for how long it may be deferred, seconds since its first receive,
                if more than 20 of its receives would count as not begun. So a message that is old
                when it is first deferred is not given up at once.
            create: True creates the queue, and the dead-letter queue, whenever they are missing:
                at the start, and if they are deleted or lost while the worker runs.
            process: True calls the function in a child process: for CPU work, and for code that may
                crash or hang. The children are new interpreters that import the worker, so it must
                be a global of a module. A call that exceeds max_runtime gets HandlerTimedOut, and
                its process is killed five seconds later.
            active: False receives nothing before ``start_listener`` is called with this queue. The
                queue is needed at the start all the same, and the worker is ready without it.
            levels: the numbers, from 1 to 100, of levels of this queue, such as
                ``{"critical": 10, "high": 6}``. The function is also called with the messages of
                the queues that ``rsmq.level_queue`` names, ``mail_critical`` for ``mail``, with all
                options of this listener; ``concurrency`` limits them together. The number is their
                weight beside the ``weight`` of this queue, the default level; with
                ``strict_priority=True`` the higher number goes first. They are ordinary queues:
                each has its own attributes, and must exist or be created.
            track: True keeps a record of what becomes of each message, whichever client has sent
                it, with what the function returned: ``rsmq.job(queue, id)`` reads it, and waits for
                the result. The result is JSON of at most 65,536 bytes; a message with another one
                fails at once, without a retry. Not with batch or several handlers.
            result_ttl: seconds from 1 for which the record lives after its end, instead of one
                hour. It also sets track.

        Raises:
            MissingParameter: the queue's name is empty.
            InvalidFormat: a name, the function or another option is invalid; or the queue has a
                listener already; or max_retries is set without dead_letter_queue or drop; or two of
                dead_letter_queue, drop and retry_forever are set.
            InvalidValue: a number is out of range.
        """
        self._check_queue(queue)
        check_option_names(self.listener, options, ListenerOptions)

        def register(function: Function) -> Function:
            handlers = Handlers(process=options.get("process", False))
            handlers.add("", function)
            made = make_listener(queue, handlers, codec=codec, batch=batch, **options)
            self.add_listener(made, options.get("levels"))
            return function

        return register

    @overload
    def router(
        self,
        queue: str,
        *,
        by: Callable[[B_co], tuple[str | None, Any]],
        unroutable: str | None = None,
        codec: None = None,
        **options: Unpack[ListenerOptions],
    ) -> Router: ...
    @overload
    def router(
        self,
        queue: str,
        *,
        by: Callable[[D], tuple[str | None, Any]],
        unroutable: str | None = None,
        codec: Codec[E, D],
        **options: Unpack[ListenerOptions],
    ) -> Router: ...
    @overload
    def router(
        self,
        queue: str,
        *,
        by: Callable[[B_co | D], tuple[str | None, Any]],
        unroutable: str | None = None,
        codec: Codec[E, D] | None,
        **options: Unpack[ListenerOptions],
    ) -> Router: ...
    def router(
        self,
        queue: str,
        *,
        by: Route,
        unroutable: str | None = None,
        codec: Codec | None = None,
        **options: Unpack[ListenerOptions],
    ) -> Router:
        """
        Add a listener with a handler for each type of message; ``router.on("created")`` decorates.

        Args:
            queue: see ``listener``.
            by: the route: returns the type of a decoded body and the argument of its handler.
                ``event_payload``, ``json_field("type")``, or a function of the body that returns
                (type, payload), with None for no type.
            unroutable: the queue for messages that have no handler, with the reason. It must exist,
                or be created. None is the dead-letter queue.
            codec: see ``listener``.
            **options: see ``listener``; ``drop`` also deletes unroutable messages, unless
                ``unroutable`` is set.

        Raises:
            The errors of ``listener``.
            InvalidFormat: by is not callable.
        """
        if not callable(by):
            raise InvalidFormat(
                "by",
                value=show(by),
                hint="It is event_payload, json_field(name), or a function of the body that "
                "returns (type, payload).",
            )
        self._check_queue(queue)
        check_option_names(self.router, options, ListenerOptions)
        handlers = Handlers(by, process=options.get("process", False))
        made = make_listener(queue, handlers, codec=codec, unroutable=unroutable, **options)
        self.add_listener(made, options.get("levels"))
        return Router(handlers)

    @overload
    def handlers(
        self, queue: str, *, codec: None = None, **options: Unpack[ListenerOptions]
    ) -> HandlerGroup[B_co]: ...
    @overload
    def handlers(
        self, queue: str, *, codec: Codec[E, D], **options: Unpack[ListenerOptions]
    ) -> HandlerGroup[D]: ...
    @overload
    def handlers(
        self, queue: str, *, codec: Codec[E, D] | None, **options: Unpack[ListenerOptions]
    ) -> HandlerGroup[B_co | D]: ...
    def handlers(
        self, queue: str, *, codec: Codec | None = None, **options: Unpack[ListenerOptions]
    ) -> HandlerGroup[Any]:
        """
        Add a listener with several handlers that are all called with each message, one after the
        other; ``group.handler("invoice")`` decorates.

        The message is deleted when all handlers have returned. If some raise, it is retried, and
        only those that have not finished are called. Which have finished is stored in Redis while
        others run or are to be called again; after a crash, a handler may be called once more. The
        order is that of their registration. Consumers of other clients know nothing of it.

        Args:
            queue: see ``listener``.
            codec: see ``listener``. Each handler receives a body that was decoded for it.
            **options: see ``listener``. ``max_retries`` counts the attempts at the message, and
                ``max_runtime`` is the time of all handlers of one attempt together.

        Raises:
            The errors of ``listener``.
        """
        self._check_queue(queue)
        check_option_names(self.handlers, options, ListenerOptions)
        handlers = Handlers(process=options.get("process", False), is_group=True)
        self.add_listener(
            make_listener(queue, handlers, codec=codec, **options), options.get("levels")
        )
        return HandlerGroup(handlers)

    def _check_queue(self, queue: object) -> None:
        """
        Raise an error if a queue's name is invalid, or is a function.

        It is a function if the brackets after ``listener`` were left out. Then no decorator is ever
        called that could raise this error.
        """
        if callable(queue):
            raise InvalidFormat(
                "queue",
                value=show(queue),
                hint="Pass the name of the queue: @worker.listener('orders').",
            )
        self.rsmq.namespace.queue(queue)  # type: ignore[arg-type]

    def _refuse_while_running(self) -> None:
        if self._is_running:
            raise InvalidFormat(
                "worker", value=self.name, hint="It is running: stop it before you change it."
            )

    def add_listener(self, new: Listener, levels: Mapping[str, int] | None = None) -> None:
        """
        Add a listener that was made elsewhere, as ``Tasks`` does.

        Raises:
            InvalidFormat: a name is invalid, or a queue has a listener already.
        """
        self._refuse_while_running()
        added = with_levels(new, levels)
        for name in (*(each.queue for each in added), *new.target_queues):
            self.rsmq.namespace.queue(name)
        for each in added:
            if each.queue in self._listeners:
                raise InvalidFormat(
                    "queue",
                    value=each.queue,
                    hint="This queue already has a listener. router() calls several functions, by "
                    "the type of the message; handlers() calls all of them.",
                )
        self._listeners.update((each.queue, each) for each in added)
        if not new.is_active:
            self._inactive.add(new.queue)

    def webhook(
        self,
        queue: str,
        url: str,
        *,
        secret: str | bytes | Sequence[str | bytes] | None = None,
        content_type: str | None = None,
        allow: str | Iterable[str] = (),
        allow_http: bool = False,
        proxy: str | None = None,
        **options: Unpack[WebhookOptions],
    ) -> None:
        """
        Push the messages of a queue to a URL, each with a POST; needs the extra ``push``.

        - 2xx deletes the message. Every other answer, none within 10 seconds, and a connection
          that breaks is an attempt that failed: the message is pushed again after a pause, and is
          a dead letter after the last attempt.
        - 429 and 503 with Retry-After pause the target, for at most 24 hours. 410 ends the
          subscription. Neither is an attempt.
        - After ten failures in a row, over all processes, the circuit breaker of the target opens:
          nothing is received or pushed. After a pause, which grows from 1 to 300 seconds, one
          process pushes one message.
        - Only public addresses are connected to, and those in the ranges of ``allow``.

        Args:
            queue: the queue's name; each queue has one listener or webhook.
            url: the target, with https. Its path is shown in logs, its query is not.
            secret: signs the requests as Standard Webhooks: base64 of 24 to 64 bytes, with or
                without ``whsec_``; bytes are the key itself. A list of two signs with both, while
                one replaces the other. None does not sign.
            content_type: the media type of the bodies. None is application/json if the client's
                codec is ``rsmq.JSON``, otherwise application/octet-stream. Bodies are not changed.
            allow: ranges of addresses that are not public and may be connected to, as in
                ``10.0.0.0/8``.
            allow_http: whether the URL may have http instead of https.
            proxy: the URL of a proxy that connects to the target, as in
                ``http://proxy.example.org:3128``, with its user and password if it asks for them.
                It looks the host up, so it must refuse addresses that are not public. None
                connects directly, whatever the environment says.
            **options: vt, concurrency, priority, weight, max_retries, backoff, dead_letter_queue,
                create and active, see ``listener``. If neither dead_letter_queue nor the queue's
                own policy names a dead-letter queue, the worker creates and uses the queue's name
                with ``-dead``.

        Raises:
            The errors of ``listener``.
            MissingExtra: the extra ``push`` is not installed.
            MissingParameter: the URL is empty.
            InvalidFormat: the URL, a secret, content_type, a range of addresses or the proxy is
                invalid; or the URL's host is an address that is not allowed.
        """
        from rsmq.webhooks.proxy import Reach  # noqa: PLC0415 - as below
        from rsmq.worker.webhook import make_webhook  # noqa: PLC0415 - needs an extra

        self._check_queue(queue)
        check_option_names(self.webhook, options, WebhookOptions)
        reach = Reach.parse(allow, allow_http, proxy)
        webhook, listener = make_webhook(
            queue, url, secret, content_type, reach, self.rsmq.codec, options
        )
        self.add_listener(listener)
        self._webhooks.append(webhook)

    def schedule(self, name: str, **arguments: Unpack[ScheduleArguments]) -> None:
        """
        Declare a schedule: ``start`` stores it in Redis, and any worker sends its messages.

        Code owns the definition, and run time owns the pause. ``start`` replaces what code has
        declared with the same or a lower version. It leaves a definition with a higher version, so
        raise the version with each change: then an older deployment that starts again does not
        replace it. It also leaves what ``queues.schedules.add`` has stored since, until the version
        is raised. A schedule that is not declared any longer stays: remove it with
        ``queues.schedules.remove``. One that was removed is added again; pause it instead.

        Args:
            name: see ``queues.schedules.add``.
            arguments: ``queue``, ``cron`` or ``every``, and all others of
                ``queues.schedules.add``. Without ``version`` it is 0.

        Raises:
            The errors of ``queues.schedules.add``.
            InvalidFormat: the name is declared already, or the worker runs.
            TypeError: there is no such argument.
        """
        self._refuse_while_running()
        client = self.rsmq
        definition = make_definition(
            client.namespace,
            name,
            arguments,
            codec=client.codec,
            realtime=client.realtime,
            source="code",
        )
        if name in self._schedules:
            raise InvalidFormat("name", value=name, hint="This schedule is declared already.")
        self._schedules[name] = definition
