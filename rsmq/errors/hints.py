"""
Texts that name arguments and methods, which each face of the library calls otherwise.

An error has its facts as attributes, and its hint is a ``Hint``: it is the text for Python, and
``in_words`` makes that of another face, such as the program or HTTP, with the names of the face.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, Self, cast


class Shown(str):
    """A text about a value, which ``show`` returns unchanged."""

    __slots__ = ()


_MAX_SHOWN_CHARACTERS = 80


def show(value: object) -> str:
    """Return a short text of any value, for errors: never a complete body."""
    if isinstance(value, Shown):
        return value
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a hint must not fail because of its value
        text = f"a value of type {type(value).__name__}"
    text = " ".join(text.splitlines())
    return Shown(text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[:_MAX_SHOWN_CHARACTERS]}…")


class Words:
    """The words of a face: these are those of Python, and other faces derive from them."""

    def value(self, value: object) -> str:
        """Return a value that was refused."""
        return show(value)

    def argument(self, name: str) -> str:
        """Return the name of an argument."""
        return name

    def passed(self, name: str, value: object) -> str:
        """Return how an argument with a value is passed."""
        return f"{name}={value!r}"

    def method(self, name: str, argument: str | None, queue: str | None) -> str:
        """Return the name of a method, or a call of it with an argument or for a queue."""
        if argument is not None:
            return f"{name}(qname, {argument}=...)"
        return name if queue is None else f"{name}({show(queue)})"


PYTHON = Words()


class HasWords(Protocol):
    """A hint, a part of one, or an error, of which each face makes its own text."""

    def in_words(self, words: Words, /) -> str:
        """Return the text with the words of a face."""


@dataclass(frozen=True, slots=True)
class Argument:
    """
    An argument in a hint.

    Attributes:
        name: that of the method.
    """

    name: str

    def in_words(self, words: Words) -> str:
        return words.argument(self.name)


@dataclass(frozen=True, slots=True)
class Passed:
    """
    An argument with a value, in a hint.

    Attributes:
        name: that of the method.
        value: what to pass.
    """

    name: str
    value: object = True

    def in_words(self, words: Words) -> str:
        return words.passed(self.name, self.value)


@dataclass(frozen=True, slots=True)
class Method:
    """
    A method of the clients in a hint.

    Attributes:
        name: its name, as in ``send_message`` or ``schedules.add``.
        argument: an argument to pass, with a value of one's own; None without one.
        queue: the queue to pass; None without one.
    """

    name: str
    argument: str | None = None
    queue: str | None = None

    def in_words(self, words: Words) -> str:
        return words.method(self.name, self.argument, self.queue)


class Hint(str):  # noqa: SLOT000 - a str can have none that are not empty
    """
    A text with names of arguments and methods; as a str it has those of Python.

    Attributes:
        parts: the text between the names, and the names.
    """

    parts: tuple[str | HasWords, ...]

    def __new__(cls, *parts: str | HasWords) -> Self:
        made = super().__new__(cls, "".join(in_words(each, PYTHON) for each in parts))
        made.parts = parts
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.parts

    def __add__(self, text: str) -> Hint:
        return Hint(*self.parts, text)

    def in_words(self, words: Words) -> str:
        return "".join(in_words(each, words) for each in self.parts)


def in_words(text: str | HasWords, words: Words) -> str:
    """Return a text with the words of a face; a plain text unchanged."""
    return str(text) if type(text) is str else cast("HasWords", text).in_words(words)
