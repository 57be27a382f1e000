"""
The arguments and the result of a task: values of Python and of JSON.

With pydantic installed, the annotations convert and check them; otherwise the rules of
``dataclass_codec`` do.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, get_type_hints

from rsmq.errors import InvalidFormat, MissingExtra, Shown
from rsmq.tasks.body import RESULT, is_result
from rsmq.tasks.converters import AnyArgument, ArgumentConverter, PlainArgument, WrongArgument
from rsmq.tasks.sealed_values import SealedValues

_KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: "can be passed by position only",
    inspect.Parameter.VAR_POSITIONAL: "takes any number of values without names",
}


def _read_signature(task: str, function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # a function written in C
        hint = "Its parameters can't be read. Call it in a function with def, and declare that."
        raise InvalidFormat("task", value=task, hint=hint) from None


def _annotated(function: Any) -> Any:
    """Return the function that has the annotations of a partial or of a callable object."""
    while isinstance(function, partial):
        function = function.func
    is_function = inspect.isroutine(function) or hasattr(function, "__wrapped__")
    return function if is_function else type(function).__call__


class TaskArguments:
    """The parameters of a function, and the form of its arguments and of its result as JSON."""

    def __init__(
        self, task: str, function: Callable[..., Any], values: SealedValues | None = None
    ) -> None:
        """
        Make it. The annotations are read when they are first needed.

        Args:
            task: the name of the task.
            function: the function.
            values: compresses and encrypts values of JSON; None leaves them as they are.

        Raises:
            InvalidFormat: a parameter can't be passed by its name.
        """
        self._task = task
        self._values = values
        self._function = function
        self._signature = _read_signature(task, function)
        for parameter in self._signature.parameters.values():
            if parameter.kind in _KINDS:
                raise InvalidFormat(
                    "task",
                    value=task,
                    hint=f"Its parameter {parameter.name!r} {_KINDS[parameter.kind]}: the body has "
                    "arguments by name.",
                )

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """
        Return the arguments of a call by name, as values of JSON; without those of defaults.

        Raises:
            InvalidFormat: they do not fit the function; the text names the task, the argument and
                the rule.
        """
        try:
            named = self._by_name(args, kwargs)
            encoded = {name: self.encode_one(name, value) for name, value in named.items()}
            if self._values is not None:
                for name, value in encoded.items():
                    self._values.check_size(name, value)
        except WrongArgument as error:
            raise self._refusal(str(error)) from None
        if sum(value is RESULT for value in encoded.values()) > 1:
            raise self._refusal("only one of them can be RESULT")
        return encoded

    def encode_one(self, name: str, value: Any) -> Any:
        """
        Return an argument as a value of JSON; RESULT and results of nodes as they are.

        Raises:
            WrongArgument: it breaks the rule of its parameter.
        """
        if is_result(value):
            return value
        try:
            return self._converter(name).to_json(value)
        except WrongArgument:
            if isinstance(value, list | tuple) and any(map(is_result, value)):
                text = f"{name} is a list with RESULT in it. Pass RESULT([node, node])"
                raise WrongArgument(f"{text}, which is the list of their results") from None
            raise

    def decode(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """
        Return the keyword arguments of a call, from those of a body.

        Raises:
            WrongArgument: they do not fit the function.
            InvalidFormat: an annotation can't be read.
        """
        named = self._by_name((), args)
        return {name: self._converter(name).from_json(value) for name, value in named.items()}

    def encode_result(self, result: Any) -> Any:
        """
        Return what the function has returned, as a value of JSON.

        Raises:
            WrongArgument: it breaks the rule of the annotation.
        """
        return self._result_converter.to_json(result)

    def decode_result(self, value: Any) -> Any:
        """
        Return what the function has returned, from a value of JSON.

        Raises:
            InvalidFormat: it breaks the rule of the annotation here, which may be newer than that
                of the worker.
        """
        try:
            return self._result_converter.from_json(value)
        except WrongArgument as error:
            raise InvalidFormat("result", value=Shown(self._task), hint=f"{error}.") from None

    def prepare(self, *, has_result: bool) -> None:
        """
        Read the annotations.

        Args:
            has_result: whether the result is stored.

        Raises:
            InvalidFormat: one of them can't be read, or its values can't be stored as JSON.
        """
        for name in self._converters:
            self._converter(name)
        if has_result:
            self._result_converter  # noqa: B018 - it is made now

    def _by_name(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise WrongArgument(f"{error}; its parameters are {self._signature}") from None
        named = dict(bound.arguments)
        if self._rest is not None:
            named.update(named.pop(self._rest, {}))
        return named

    @cached_property
    def _rest(self) -> str | None:
        """The name of the parameter ``**name``, which takes all other names."""
        parameters = self._signature.parameters.values()
        return next((each.name for each in parameters if each.kind is each.VAR_KEYWORD), None)

    def _converter(self, name: str) -> ArgumentConverter:
        if name in self._converters and name != self._rest:
            return self._converters[name]
        if self._rest is None:
            raise WrongArgument(f"there is no parameter {name!r}")
        return self._converters[self._rest]

    @cached_property
    def _result_converter(self) -> ArgumentConverter:
        return self._make_converter("result", self._types.get("return", Any))

    @cached_property
    def _converters(self) -> dict[str, ArgumentConverter]:
        return {
            name: self._make_converter(name, self._types.get(name, Any))
            for name in self._signature.parameters
        }

    @cached_property
    def _types(self) -> dict[str, Any]:
        try:
            return get_type_hints(_annotated(self._function), include_extras=True)
        except Exception as error:
            raise self._refusal(
                f"its annotations can't be read ({error}). Import these names at the top of the "
                "module, outside of TYPE_CHECKING"
            ) from error

    def _make_converter(self, name: str, kind: Any) -> ArgumentConverter:
        converter = self._make_plain_converter(name, kind)
        return converter if self._values is None else self._values.around(converter)

    def _make_plain_converter(self, name: str, kind: Any) -> ArgumentConverter:
        if kind is Any:
            return AnyArgument(name)
        try:
            from rsmq.tasks.pydantic_arguments import PydanticArgument  # noqa: PLC0415 - needs an extra
        except MissingExtra:
            return PlainArgument(self._task, name, kind)
        return PydanticArgument(self._task, name, kind)

    def _refusal(self, rule: str) -> InvalidFormat:
        return InvalidFormat("arguments", value=Shown(self._task), hint=f"{rule}.")
