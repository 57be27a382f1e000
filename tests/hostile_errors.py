"""Exceptions of handlers that can't be read safely."""

from __future__ import annotations


class Broken(BaseException):
    """An error that only ``except BaseException`` catches."""


class _Raises:
    """An attribute that raises when it is read."""

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner):
        if instance is None:
            return self
        raise Broken(self.name)


def _raise(*_args):
    raise Broken("called")


class Forwarding(Exception):
    """An error of a client library that forwards unknown attributes to an object."""

    def __getattr__(self, name):
        return lambda *_args: name


class Endless(Exception):
    """As ``Forwarding``, but the object was never set."""

    def __getattr__(self, name):
        return getattr(self.response, name)


class RaisingGetattr(Exception):
    def __getattr__(self, name):
        raise Broken(name)


class RaisingGetattribute(Exception):
    def __getattribute__(self, name):
        raise Broken(name)


class WithFields(Exception):
    def __init__(self, fields):
        super().__init__("it has fields")
        self.dead_letter_fields = fields


class ChangedText(str):
    """A text that raises when it is used."""

    __slots__ = ()

    __getitem__ = split = __len__ = __str__ = __add__ = __format__ = _raise


class OwnText(Exception):
    def __str__(self):
        return ChangedText("a text")


class NameRaises(type):
    @property
    def __name__(cls):
        raise Broken

    @property
    def __module__(cls):
        raise Broken


class OfRaisingName(Exception, metaclass=NameRaises):
    pass


def _type_that_raises(name):
    attribute = _raise if name in _METHODS else _Raises()
    return type(f"Raises{name.strip('_').title()}", (Exception,), {name: attribute})


_METHODS = ("__str__", "__repr__", "__bool__", "__eq__", "__hash__", "__len__", "__format__")
_ATTRIBUTES = (
    "__cause__", "__context__", "__class__", "__traceback__", "__notes__", "__dict__", "args",
    "__suppress_context__", "__module__", "add_note", "with_traceback", "dead_letter_fields",
)  # fmt: skip


class RaisingGroup(ExceptionGroup):
    exceptions = _Raises()


def _with_notes(notes):
    error = ValueError("it has notes")
    error.__notes__ = notes
    return error


def _in_itself():
    error = ValueError("its own cause")
    error.__cause__ = error
    return error


def _chain(length):
    error = None
    for number in range(length):
        following = ValueError(number)
        following.__cause__ = error
        error = following
    return error


def make_hostile_error(kind):
    """Return an error of this kind, which is one of HOSTILE_ERRORS."""
    return HOSTILE_ERRORS[kind]()


#: For each kind of error a function that makes one.
HOSTILE_ERRORS = {
    **{name: lambda name=name: _type_that_raises(name)("x") for name in (*_METHODS, *_ATTRIBUTES)},
    "forwarding __getattr__": lambda: Forwarding("x"),
    "endless __getattr__": lambda: Endless("x"),
    "raising __getattr__": lambda: RaisingGetattr("x"),
    "raising __getattribute__": lambda: RaisingGetattribute("x"),
    "fields are a text": lambda: WithFields("text"),
    "fields replace others": lambda: WithFields({"queue": object(), "attempts": "many"}),
    "text of another class": OwnText,
    "name that raises": lambda: OfRaisingName("x"),
    "notes are a number": lambda: _with_notes(7),
    "notes can't be shown": lambda: _with_notes([_type_that_raises("__str__")()]),
    "notes are no texts": lambda: _with_notes([object(), None]),
    "group": lambda: ExceptionGroup(
        "many", [_type_that_raises("__str__")("x"), _type_that_raises("__cause__")("x")]
    ),
    "group of groups": lambda: ExceptionGroup(
        "many", [ExceptionGroup("more", [_type_that_raises("__class__")("x"), Endless("x")])]
    ),
    "group without members": lambda: RaisingGroup("many", [ValueError("x")]),
    "large group": lambda: ExceptionGroup("many", [ValueError(n) for n in range(2000)]),
    "its own cause": _in_itself,
    "long chain": lambda: _chain(3000),
    "huge text": lambda: ValueError("x" * 30_000_000),
    "huge notes": lambda: _with_notes(["n" * 1_000_000] * 10),
    "BaseException": lambda: Broken("x"),
}
