"""
A test that fails or exceeds its limit of time changes nothing for the tests after it.

After a failure, all fixtures are torn down, and the next test makes them anew: a shared server may
be paused, have other settings or have ended, and a cluster, browser or Spark session be broken.

The alarm of pytest-timeout interrupts a test at any place, such as a call on a connection that
tests share, whose reply then stays unread. So the process of a test that exceeded its limit ends
with it, with all threads and connections. pytest-xdist replaces the process, and blames this test
for its end; without pytest-xdist the tests after it are not run.
"""

from __future__ import annotations

import faulthandler
import os
import time

import pytest
from xdist.scheduler import LoadFileScheduling

#: If a test and its teardown have not ended by then, the process ends in the midst of them.
TEARDOWN_SECONDS = 120.0

_has_failed = pytest.StashKey[bool]()
_deadline = pytest.StashKey[float]()


class FileScheduling(LoadFileScheduling):
    """Schedules as ``--dist loadfile``, but runs a test whose process has ended no second time."""

    def remove_node(self, node):
        units = self.assigned_work[node].values()
        ended = next(
            (name for unit in units for name, is_done in unit.items() if not is_done), None
        )
        for unit in units:
            if ended in unit:
                unit[ended] = True
        super().remove_node(node)
        return ended


class Isolation:
    """The plugin; ``register`` adds it once."""

    def __init__(self) -> None:
        # pytest replaces the standard error while tests run.
        self._errors = os.dup(2)

    @pytest.hookimpl(tryfirst=True)
    def pytest_timeout_set_timer(self, item, settings):
        """Note the limit; pytest-timeout then sets its alarm."""
        item.stash[_deadline] = time.monotonic() + settings.timeout
        # The alarm has no effect on a test that catches what it raises, or is inside a call of C.
        faulthandler.dump_traceback_later(
            settings.timeout + TEARDOWN_SECONDS, exit=True, file=self._errors
        )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item):
        report = yield
        if report.failed:
            item.stash[_has_failed] = True
        return report

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_teardown(self, item):
        try:
            return (yield)
        except BaseException:
            item.stash[_has_failed] = True
            raise
        finally:
            if item.stash.get(_has_failed, False):
                item.session._setupstate.teardown_exact(None)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item):
        try:
            result = yield
        finally:
            faulthandler.cancel_dump_traceback_later()
        if time.monotonic() > item.stash.get(_deadline, float("inf")):
            self._end_process(item)
        return result

    def pytest_xdist_make_scheduler(self, config, log):
        if config.option.dist == "loadfile":
            return FileScheduling(config, log)
        return None

    def _end_process(self, item):
        text = f"{item.nodeid} exceeded its limit of time: its process ends."
        if hasattr(item.config, "workerinput"):
            os.write(self._errors, f"\n{text}\n".encode())
            os._exit(1)
        item.session.shouldfail = text


def register(config):
    """Add the plugin, unless another folder of tests has done it."""
    if not config.pluginmanager.has_plugin("isolation"):
        config.pluginmanager.register(Isolation(), "isolation")
