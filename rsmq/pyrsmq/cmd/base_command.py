"""
The base classes of commands.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Self

from rsmq import errors
from rsmq.pyrsmq.cmd.exceptions import (
    CommandNotImplementedException,
    InvalidParameterValue,
    QueueAlreadyExists,
    QueueDoesNotExist,
    RedisSMQException,
)
from rsmq.pyrsmq.cmd.parameter_checks import check_parameter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rsmq.pyrsmq.cmd.controller import Controller
    from rsmq.wire.keys import Namespace


class Command:
    """
    A command and its parameters.

    As in PyRSMQ, a wrong value of an optional parameter is ignored if it is a keyword, or if
    exceptions are off: the parameter keeps its value or its default. When the command is executed,
    it logs a warning. A wrong value of a required parameter is an error.

    Attributes:
        parameters: the names of its parameters. The controller's defaults for other parameters are
            ignored.
    """

    parameters: ClassVar[tuple[str, ...]] = ("qname", "quiet")
    _required: ClassVar[tuple[str, ...]] = ("qname",)

    def __init__(self, rsmq: Controller, **params: Any) -> None:
        self._rsmq = rsmq
        #: Set by ``exceptions``; None is the controller's option.
        self._own_exceptions: bool | None = None
        self._invalid: dict[str, InvalidParameterValue] = {}
        self._ignored: dict[str, InvalidParameterValue] = {}
        self._values: dict[str, Any] = {}
        for name, value in params.items():
            if name in self.parameters and value is not None:
                self._store(name, value)

    def exceptions(self, enabled: bool = True) -> Self:  # noqa: FBT001, FBT002 - PyRSMQ's
        """Choose whether this command raises (True) or returns False on an error."""
        self._own_exceptions = enabled is not False
        return self

    def quiet(self, value: bool = True) -> Self:  # noqa: FBT001, FBT002 - PyRSMQ's
        """Log no errors while exceptions are off."""
        self._values["quiet"] = value
        return self

    def ready(self) -> bool:
        """Return whether every required parameter is set to a valid value."""
        return not self._invalid and self._find_missing() is None

    def execute(self) -> Any:
        """
        Run the command.

        Returns:
            The command's result; False on an error while exceptions are off.

        Raises:
            RedisSMQException: one of its subclasses, unless exceptions are off.
        """
        try:
            return self.exec_command()
        except RedisSMQException as error:
            if self._has_exceptions:
                raise
            self._log_warning(type(error).__name__, error)
            return False

    def exec_command(self) -> Any:
        """Run the command as ``execute`` does, but raise errors also while exceptions are off."""
        self._check_parameters()
        for error in self._ignored.values():
            self._log_warning("Ignored", error)
        with self._translate_errors():
            return self._run()

    def _log_warning(self, title: str, error: Exception) -> None:
        """Log an error with its notes, unless the command is quiet."""
        if not self._values.get("quiet"):
            # The logger has PyRSMQ's name: programs filter by it.
            log = logging.getLogger(f"rsmq.cmd.{type(self).__name__}")
            log.warning("%s: %s", title, " ".join([str(error), *getattr(error, "__notes__", ())]))

    def _run(self) -> Any:
        raise CommandNotImplementedException

    def _check_parameters(self) -> None:
        for error in self._invalid.values():
            raise error
        missing = self._find_missing()
        if missing is not None:
            raise InvalidParameterValue(missing, None, "It is required.")

    @property
    def namespace(self) -> Namespace:
        """The keys of the controller's namespace."""
        return self._rsmq.namespace

    @property
    def _has_exceptions(self) -> bool:
        if self._own_exceptions is None:
            enabled: bool = self._rsmq.options["exceptions"]
            return enabled
        return self._own_exceptions

    @property
    def _qname(self) -> str:
        qname: str = self._values["qname"]
        return qname

    def _find_missing(self) -> str | None:
        return next((name for name in self._required if name not in self._values), None)

    def _set(self, name: str, value: object) -> Self:
        """Set a parameter by its own call, which raises if the value is invalid."""
        error = self._store(name, value)
        if error is not None and self._has_exceptions:
            self._ignored.pop(name, None)
            raise error
        return self

    def _store(self, name: str, value: object) -> InvalidParameterValue | None:
        """Store the value of a parameter; store and return the error if it is invalid."""
        self._invalid.pop(name, None)
        self._ignored.pop(name, None)
        try:
            self._values[name] = check_parameter(self.namespace, name, value)
        except InvalidParameterValue as error:
            (self._invalid if name in self._required else self._ignored)[name] = error
            return error
        return None

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raise PyRSMQ's errors instead of this library's."""
        try:
            yield
        except errors.QueueNotFound as error:
            raise QueueDoesNotExist(self._qname) from error
        except errors.QueueExists as error:
            raise QueueAlreadyExists(self._qname) from error
        except errors.RSMQError as error:
            raise RedisSMQException(str(error)) from error


class QueueCommand(Command):
    """A command for one queue."""

    def qname(self, value: str) -> Self:
        """Set the name of the queue: 1 to 64 characters, no colon."""
        return self._set("qname", value)
