"""Handlers, filters and formatters of logging that raise: the worker continues."""

from __future__ import annotations

import logging
import logging.config
import threading

import pytest

from rsmq.worker import DetailedLogging, Middleware
from tests.hostile_errors import Broken
from tests.workers.polling import state_of, wait_until


class FailingHandler(logging.Handler):
    def __init__(self, error):
        super().__init__()
        self.error = error
        self.count = 0

    def emit(self, record):
        self.count += 1
        if isinstance(self.error, Exception) or threading.current_thread().name == "rsmq-worker":
            raise self.error


@pytest.fixture(
    params=[OSError(28, "No space left on device"), ValueError("x"), Broken()], ids=repr
)
def handler(request):
    handler = FailingHandler(request.param)
    for name in ("rsmq.worker", "rsmq.transport"):
        logging.getLogger(name).addHandler(handler)
    yield handler
    for name in ("rsmq.worker", "rsmq.transport"):
        logging.getLogger(name).removeHandler(handler)


FILE_CONFIG = """
[loggers]
keys=root
[handlers]
keys=
[formatters]
keys=
[logger_root]
handlers=
"""


def configure_by_dict(_folder):
    logging.config.dictConfig({"version": 1, "loggers": {"shop": {"level": "INFO"}}})


def configure_by_file(folder):
    path = folder / "logging.ini"
    path.write_text(FILE_CONFIG)
    logging.config.fileConfig(path)


@pytest.fixture
def loggers():
    """Put the states of the loggers back, which a configuration changes."""
    names = [name for name, each in logging.root.manager.loggerDict.items() if each]
    loggers = [each for each in map(logging.getLogger, names) if not each.disabled]
    root_handlers = list(logging.root.handlers)
    yield loggers
    logging.root.handlers[:] = root_handlers
    for each in loggers:
        each.disabled = False


@pytest.mark.parametrize("configure", [configure_by_dict, configure_by_file])
def test_configuration_of_an_application_does_not_silence_the_worker(
    env, rsmq, configure, loggers, tmp_path
):
    records = []
    handler = logging.Handler()
    handler.emit = records.append
    env.create_queues("q", "dead")
    worker = env.create_worker()

    @worker.listener("q", max_retries=0, dead_letter_queue="dead")
    def handle(body):
        raise ValueError(body)

    configure(tmp_path)
    assert logging.getLogger("rsmq.worker").disabled
    logging.root.addHandler(handler)
    id = rsmq.send_message("q", "bad")
    worker.start()
    wait_until(lambda: worker.numbers.dead == 1)
    worker.stop()  # the message is counted before the line is logged

    lines = [each.getMessage() for each in records if each.name == "rsmq.worker"]
    assert any(line.startswith(f"q {id}: to dead after attempt 1") for line in lines)


def test_level_silences_the_worker(env, rsmq, caplog):
    caplog.set_level(logging.CRITICAL, "rsmq.worker")
    env.create_queues("q", "dead")
    worker = env.create_worker()

    @worker.listener("q", max_retries=0, dead_letter_queue="dead")
    def handle(body):
        raise ValueError(body)

    rsmq.send_message("q", "bad")
    worker.start()
    wait_until(lambda: worker.numbers.dead == 1)

    assert "to dead" not in caplog.text


class FailingHooks(Middleware):
    def after_receive(self, queue, messages):
        raise OSError("of a hook")


def test_log_handler_that_raises_changes_no_outcome(env, rsmq, handler, caplog):
    caplog.set_level(logging.DEBUG, "rsmq.worker")
    env.create_queues("q", "dead")
    worker = env.create_worker(middleware=[DetailedLogging(), FailingHooks()])

    @worker.listener("q", backoff=0, max_retries=1, dead_letter_queue="dead")
    def handle(body):
        if body == "bad":
            raise ValueError(body)

    ids = rsmq.send_messages("q", ["bad", *"abcde"])
    worker.start()
    wait_until(lambda: state_of(worker).failure or worker.numbers.handled == 5)
    wait_until(lambda: state_of(worker).failure or worker.numbers.dead == 1)

    assert state_of(worker).failure is None
    assert not state_of(worker).has_failing_server, "the worker takes the error for one of Redis"
    assert handler.count >= 2
    assert env.is_empty("q")
    assert env.scores("dead").keys() == {ids[0]}


def test_log_records_have_the_place_of_their_call(env, rsmq, caplog):
    env.create_queues("q")
    worker = env.create_worker()

    @worker.listener("q", backoff=500)
    def handle(body):
        raise ValueError(body)

    rsmq.send_message("q", "x")
    worker.start()
    (record,) = wait_until(
        lambda: [each for each in caplog.records if "attempt 1 failed" in each.getMessage()]
    )

    assert (record.filename, record.funcName) == ("logging.py", "after_retry")
    assert record.queue == "q"
