"""
The form of an action: an entry of the API, the page that confirms it, and what is said afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from rsmq.web.fields import Refused
from rsmq.web.pages.formats import show_name
from rsmq.web.pages.links import Links
from rsmq.web.pages.table import PageCall
from rsmq.web.routes.workers import HeldJson

#: The fields of a form: the names in the path of the entry, and those of its query and body. A list
#: has several values, others have one.
Fields: TypeAlias = Mapping[str, Sequence[str]]


def one(fields: Fields, name: str, default: str = "") -> str:
    """Return the only value of a field."""
    return fields[name][0] if fields.get(name) else default


#: A field in a template.
_FIELD = re.compile(r"\{(\w+)\}")


def _fill(template: str, fields: Fields) -> str:
    return _FIELD.sub(lambda found: one(fields, found[1]), template)


def fill(template: str, fields: Fields) -> str:
    """Return a text with the values of fields in the places of their names in braces."""
    return _FIELD.sub(lambda found: show_name(one(fields, found[1])), template)


def options_of(fields: Fields, *names: str) -> list[str]:
    """Return the options of a command that have a value."""
    return [
        f"--{name.replace('_', '-')}={one(fields, name)}" for name in names if one(fields, name)
    ]


@dataclass(frozen=True, slots=True)
class Input:
    """
    A field that a person fills in on the page of confirmation.

    Attributes:
        value: what is there at first, unless the address has a value.
        choices: the values of a ``choice``, each with its label.
        is_further: whether it is in a part of the form that is closed at first.
    """

    name: str
    label: str
    kind: Literal["text", "number", "area", "choice"] = "text"
    value: str = ""
    hint: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    required: bool = False
    is_further: bool = False


@dataclass(frozen=True, slots=True)
class Effect:
    """
    The effect of an action, as it was just read.

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
    hidden: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    entry: Mapping[str, str] = field(default_factory=dict)
    suspect: HeldJson | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """
    The text after an action.

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
        title: of the page of confirmation: a template, or what returns it.
        button: a verb.
        effect: returns what it will do; None if the button says all, and there is no page.
        done: what is said afterwards: a template, or a function of the content of the answer.
        back: returns the address of the page that follows; that of its queue by default.
        command: the same command of the program, a template, or what returns its words; None if
            there is none.
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
    title: str | Callable[[Fields], str]
    button: str
    done: str | Callable[[Fields, Any], Done]
    back: Callable[[Links, Fields], str] | None = None
    effect: Callable[[PageCall, Fields], Coroutine[Any, Any, Effect]] | None = None
    command: str | Callable[[Fields], list[str]] | None = None
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
        return _FIELD.findall(self.path)

    @property
    def destroys(self) -> bool:
        """Whether it removes something, so that its button is red."""
        return self.method == "DELETE" or self.path.endswith(_REMOVING)

    def path_of(self, quote: Callable[[str], str]) -> str:
        """Return the path of the entry with values; ``quote`` returns that of a name."""
        return _FIELD.sub(lambda match: quote(match[1]), self.path)

    def title_of(self, fields: Fields) -> str:
        """Return the title of the page of confirmation."""
        return fill(self.title, fields) if isinstance(self.title, str) else self.title(fields)

    def done_of(self, fields: Fields, answer: Any) -> Done:
        """Return what is said after the action."""
        if isinstance(self.done, str):
            undo = ((answer or {}).get("undo") or {}).get("id")
            return Done(fill(self.done, fields), undo)
        return self.done(fields, answer)

    def back_of(self, links: Links, fields: Fields) -> str:
        """Return the address of the page that follows."""
        return self.back(links, fields) if self.back else links.queue(one(fields, "queue"))

    def command_of(self, fields: Fields) -> list[str]:
        """Return the words of the same command of the program; none if there is none."""
        if self.command is None or callable(self.command):
            return self.command(fields) if self.command else []
        return [_fill(word, fields) for word in self.command.split()]

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
