"""
Signatures and docstrings of calls that take options by ``**options``, as ``help`` shows them.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from rsmq.vocabulary.queues import QueueCall
from rsmq.vocabulary.sends import SendCall

#: A call that takes options, which have the methods ``name_in``, ``annotation_in``, ``default_in``
#: and ``detail_in``.
OptionCall: TypeAlias = SendCall | QueueCall

F = TypeVar("F", bound=Callable[..., Any])

#: The line of a docstring that the options replace.
_PLACE = "            options: see below.\n"
_WIDTH = 100


def takes_options_of(call: OptionCall, *, own_first: bool = False) -> Callable[[F], F]:
    """
    Return a decorator that names the options of a call in the signature and in the docstring.

    The function stays what it is. Type checkers and editors read the ``TypedDict`` of its
    ``**options``.

    Args:
        call: whose options they are.
        own_first: whether the options follow the other arguments by keyword.
    """

    def describe(function: F) -> F:
        signature = inspect.signature(function)
        *others, _ = signature.parameters.values()  # the last one is **options
        by_position = [each for each in others if each.kind is not each.KEYWORD_ONLY]
        options = [_make_parameter(each, call) for each in call.options.values()]
        last = [each for each in others if each.kind is each.KEYWORD_ONLY]
        by_keyword = [*last, *options] if own_first else [*options, *last]
        shown = signature.replace(parameters=[*by_position, *by_keyword])
        function.__signature__ = shown  # type: ignore[attr-defined]
        if function.__doc__:  # there is none with python -OO
            items = "".join(_describe(each, call) for each in call.options.values())
            function.__doc__ = function.__doc__.replace(_PLACE, items)
        return function

    return describe


def _make_parameter(option: Any, call: OptionCall) -> inspect.Parameter:
    return inspect.Parameter(
        option.name_in(call),
        inspect.Parameter.KEYWORD_ONLY,
        default=option.default_in(call),
        annotation=option.annotation_in(call),
    )


def _describe(option: Any, call: OptionCall) -> str:
    return (
        textwrap.fill(
            f"{option.name_in(call)}: {option.detail_in(call)}",
            _WIDTH,
            initial_indent=" " * 12,
            subsequent_indent=" " * 16,
            break_on_hyphens=False,
        )
        + "\n"
    )
