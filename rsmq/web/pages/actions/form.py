"""
The form of an action: an entry of the API, the page that confirms it, and what is said afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from rsmq.web.fields import Refused
from rsmq.web.pages.links import Links
from rsmq.web.pages.table import PageCall

#: The fields of a form: the names in the path of the entry, and those of its query and body. A list
#: has several values, others have one.
Fields: TypeAlias = Mapping[str, Sequence[str]]


def one(fields: Fields, name: str, default: str = "") -> str:
    """Return the only value of a field."""
    return fields[name][0] if fields.get(name) else default


@dataclass(frozen=True, slots=True)
class Input:
    """
    A field that a person fills in on the page of confirmation.

    Attributes:
        value: what is there at first, unless the address has a value.
        choices: the values of a ``choice``, each with its label.
    """

    name: str
    label: str
    kind: Literal["text", "number", "area", "choice"] = "text"
    value: str = ""
    hint: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    required: bool = False


@dataclass(frozen=True, slots=True)
class Effect:
    """
    What an action will do, as it was just read.

    Attributes:
        text: with the exact count.
        lines: what it concerns, one line each.
        warnings: what can't be undone, what others will see.
        name_to_type: the name that must be typed first; None for a harmless action.
        inputs: further fields of the page, such as a choice among queues.
        hidden: further fields that the page sends, such as the token of a selection.
        entry: fields of the entry that the action sets; an empty text stays.
        suspect: a message that may have killed the worker whose messages are released.
    """

    text: str
    warnings: tuple[str, ...] = ()
    name_to_type: str | None = None
    inputs: tuple[Input, ...] = ()
    hidden: Mapping[str, str] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    entry: Mapping[str, str] = field(default_factory=dict)
    suspect: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """
    What is said after an action.

    Attributes:
        undo: the id with which it can be undone.
        queue: the queue to which messages went, for a link.
    """

    text: str
    undo: str | None = None
    queue: str | None = None


@dataclass(frozen=True, slots=True)
class FollowUp:
    """
    A second entry of the API, which an action calls when the first one has succeeded.

    Attributes:
        names: those in its path.
        text: what has been done then, for the end of a sentence.
    """

    method: str
    path: str
    names: Mapping[str, str]
    text: str


#: The field with the name that a person has typed.
TYPED = "typed-name"
#: The ends of entries that remove messages.
_REMOVING = (":purge", ":delete", ":sweep-expired")
_NAMES = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class PageAction:
    """
    An entry of the table of actions.

    It has no fields but those that it declares: the names in its path, its inputs, and the three
    sets below. A request with another field is refused.

    Attributes:
        name: in the address.
        method: that of the entry of the API.
        path: that of the entry of the API, as in the table of operations.
        title: returns the title of the page of confirmation.
        button: a verb.
        effect: returns what it will do; None if the button says all, and there is no page.
        done: returns what is said afterwards, of the content of the answer.
        back: returns the address of the page that follows.
        command: returns the words of the same command of the program; none if there is none.
        inputs: the fields of the page of confirmation.
        fixed: fields of the entry that the action sets.
        then: returns what is called after it.
        cancel: returns the address of the page where it began, if ``back`` is another one.
        address: further fields, which an address may have too.
        form: further fields, which only its form has: those that its effect shows or hides there.
        preview: the same, of a preview that its effect stores. A form with none of them asks for
            the preview, which an address does not get: a GET stores nothing.
    """

    name: str
    method: str
    path: str
    title: Callable[[Fields], str]
    button: str
    done: Callable[[Fields, Any], Done]
    back: Callable[[Links, Fields], str]
    effect: Callable[[PageCall, Fields], Coroutine[Any, Any, Effect]] | None = None
    command: Callable[[Fields], list[str]] | None = None
    inputs: tuple[Input, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    then: Callable[[Fields], FollowUp | None] | None = None
    cancel: Callable[[Links, Fields], str] | None = None
    address: frozenset[str] = frozenset()
    form: frozenset[str] = frozenset()
    preview: frozenset[str] = frozenset()

    @property
    def path_names(self) -> list[str]:
        """The names in the path of the entry."""
        return _NAMES.findall(self.path)

    @property
    def destroys(self) -> bool:
        """Whether it removes something, so that its button is red."""
        return self.method == "DELETE" or self.path.endswith(_REMOVING)

    def path_of(self, quote: Callable[[str], str]) -> str:
        """Return the path of the entry with values; ``quote`` returns that of a name."""
        return _NAMES.sub(lambda match: quote(match[1]), self.path)

    def check_fields(self, fields: Fields, *, is_form: bool) -> None:
        """
        Raise Refused if a field is not one of this action.

        Args:
            is_form: whether its form has sent them; else they are of an address.
        """
        known = {*self.path_names, *self.address, *(each.name for each in self.inputs)}
        if is_form:
            known |= {TYPED, *self.form, *self.preview}
        for name in fields:
            if name not in known:
                where = "form" if is_form else "address"
                raise Refused(
                    "unknownField",
                    f"The {where} of this action has no field of this name",
                    value=name[:80],
                    hint="Open the action from its page again.",
                )
