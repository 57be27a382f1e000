"""
The form of an action: an entry of the API, the page that confirms it, and what is said afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from rsmq.vocabulary.calls import CALLS, FACE_CALLS
from rsmq.web.fields import Refused, Shape
from rsmq.web.pages.formats import show_name
from rsmq.web.pages.links import Links, part_of
from rsmq.web.pages.table import PageCall
from rsmq.web.routes import TABLE
from rsmq.web.routes.workers import HeldJson
from rsmq.web.table import RawBody, Route, Scope

#: The fields of a form: the names in the path of the entry, and those of its query and body. A list
#: has several values, others have one.
Fields: TypeAlias = Mapping[str, Sequence[str]]


def one(fields: Fields, name: str, default: str = "") -> str:
    """Return the only value of a field."""
    return fields[name][0] if fields.get(name) else default


#: A field in a template.
_FIELD = re.compile(r"\{(\w+)\}")
_NUMBERS = (Shape.NUMBER, Shape.WHOLE)
_ROUTES = {f"{each.method} {each.path}": each for each in TABLE}
#: The commands of the program that are the call of a route.
_COMMANDS = {each.route: each.command for each in reversed((*CALLS, *FACE_CALLS)) if each.command}


def _fill(template: str, fields: Fields) -> str:
    return _FIELD.sub(lambda found: one(fields, found[1]), template)


def path_with(template: str, fields: Fields) -> str:
    """Return a path with the values of fields, as parts of a path."""
    return _FIELD.sub(lambda found: part_of(one(fields, found[1])), template)


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

    The field of the same name of the entry of the API has the kind, the hint, and whether it is
    required, if this one does not say so.

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
#: Of verbs that are not regular: behind the name of a person, as in the audit stream, and behind
#: "was", as in the text after the action.
_PASTS = {
    "Cancel": ("cancelled", "cancelled"), "Edit and resend": ("resent", "resent"),
    "Forget": ("forgot", "forgotten"), "Hide": ("hid", "hidden"),
    "Redrive": ("redrove", "redriven"), "Run": ("ran", "run"), "Send": ("sent", "sent"),
    "Set": ("set", "set"), "Show": ("looked at", "shown"), "Stop": ("stopped", "stopped"),
    "Sweep": ("swept", "swept"), "Undo": ("undid", "undone"),
}  # fmt: skip
#: The ends of entries that remove something, or end it for good.
_REMOVING = (":purge", ":delete", ":sweep-expired", ":cancel")


def positional(*words: str) -> list[str]:
    """Return arguments of a command, also those that look like options."""
    return ["--", *words] if any(each.startswith("-") for each in words) else [*words]


@dataclass(frozen=True, slots=True)
class PageAction:
    """
    An entry of the table of actions: all faces of an action follow from it.

    These are its button with the rights that it needs, the page of confirmation, the call of the
    API, the same in a shell, the text afterwards, and the words of the audit stream.

    It has no fields but those that it declares: the names in its path, its inputs, and the three
    sets below. A request with another field is refused.

    Attributes:
        name: in the address.
        route: the method and the path of the entry of the API, as in the table of operations.
        verb: the begin of its title and of its button; all its texts have this verb.
        what: the object of the verb: a template, or what returns it.
        done: the text afterwards: a template of the fields and of those of the answer, or a
            function of both; by default that it was done to ``what``.
        effect: what it will do, a template, or what returns it; empty if the button says all, and
            there is no page.
        command: the same command of the program, a template, or what returns its words; by default
            the command of the table of calls, with the names in the path and the ids.
        why_not: why the program has no such command.
        back: the path of the page that follows, a template, or what returns its address.
        inputs: the fields of the page of confirmation.
        fixed: fields of the entry that the action sets.
        then: returns what is called after it.
        cancel: the path of the page where it began, if ``back`` is another one.
        address: further fields, which an address may have too.
        form: further fields, which only its form has: those that its effect shows or hides there.
        preview: the same, of a preview that its effect stores. A form with none of them asks for
            the preview, which an address does not get: a GET stores nothing.
        button: the words of its button, which its title has too; those of the verb by default.
        recorded: the object of the verb in the audit stream, if it is not the template ``what``.
    """

    name: str
    route: str
    verb: str
    what: str | Callable[[Fields], str]
    done: str | Callable[[Fields, Any], Done] = ""
    effect: str | Callable[[PageCall, Fields], Coroutine[Any, Any, Effect]] = ""
    command: str | Callable[[Fields], list[str]] = ""
    why_not: str = ""
    back: str | Callable[[Links, Fields], str] = "queues/{queue}"
    inputs: tuple[Input, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    then: Callable[[Fields], FollowUp | None] | None = None
    cancel: str = ""
    address: tuple[str, ...] = ()
    form: tuple[str, ...] = ()
    preview: tuple[str, ...] = ()
    button: str = ""
    recorded: str = ""

    @property
    def label(self) -> str:
        """The words of its button."""
        return self.button or self.verb

    @property
    def pasts(self) -> tuple[str, str]:
        """The past of its verb, and the participle."""
        regular = f"{self.verb.lower().removesuffix('e')}ed"
        return _PASTS.get(self.verb, (regular, regular))

    @property
    def entry(self) -> Route:
        """The entry of the API."""
        return _ROUTES[self.route]

    @property
    def scopes(self) -> set[Scope]:
        """The rights that it needs; of messages without their receipts that to manage, too."""
        scope = self.entry.scope
        also = {Scope.MANAGE} if scope is Scope.RECEIVE else set()
        return also if scope is None else {scope, *also}

    @property
    def path_names(self) -> list[str]:
        """The names in the path of the entry."""
        return _FIELD.findall(self.route)

    @property
    def destroys(self) -> bool:
        """Whether it removes something, or ends it for good, so that its button is red."""
        return self.route.startswith("DELETE") or self.route.endswith(_REMOVING)

    @property
    def style(self) -> str:
        """The style of its button."""
        return "danger" if self.destroys else "main" if self.verb == "Redrive" else ""

    @property
    def is_at_once(self) -> bool:
        """Whether its button sends its form, and does not lead to the page of confirmation."""
        return self.verb == "Undo" or bool(self.preview or not (self.effect or self.inputs))

    @property
    def phrase(self) -> str:
        """The text of the audit stream; empty of a send, and if another action has it."""
        if self.entry.scope is Scope.SEND:
            return ""
        what = self.recorded or (self.what if isinstance(self.what, str) else "")
        names = set(self.path_names) - {"queue"}
        target = _FIELD.sub(lambda found: "{target}" if found[1] in names else found[0], what)
        return what and f"{self.pasts[0]} {target}"

    @property
    def form_inputs(self) -> list[Input]:
        """The fields of its page, each with what the entry of the API says of it."""
        return [self._complete(each) for each in self.inputs]

    def _complete(self, each: Input) -> Input:
        body = () if isinstance(self.entry.body, RawBody) else self.entry.body
        found = next((it for it in (*body, *self.entry.query) if it.name == each.name), None)
        if found is None:
            return replace(each, required=True)  # a name in the path
        kind = "choice" if each.choices else "number" if found.kind in _NUMBERS else each.kind
        is_required = each.required or found.required
        return replace(each, kind=kind, required=is_required, hint=each.hint or found.text)

    def what_of(self, fields: Fields) -> str:
        """Return the object of the verb."""
        return fill(self.what, fields) if isinstance(self.what, str) else self.what(fields)

    def title_of(self, fields: Fields) -> str:
        """Return the title of the page of confirmation."""
        return f"{self.verb} {self.what_of(fields)}"

    async def effect_of(self, call: PageCall, fields: Fields) -> Effect:
        """Return what it will do."""
        if isinstance(self.effect, str):
            return Effect(fill(self.effect, fields))
        return await self.effect(call, fields)

    def done_of(self, fields: Fields, answer: Any) -> Done:
        """Return what is said after the action."""
        if not isinstance(self.done, str):
            return self.done(fields, answer)
        answer = answer or {}
        texts = {name: [value] for name, value in answer.items() if isinstance(value, str)}
        text = fill(self.done, {**fields, **texts}) or self._was_done(fields)
        return Done(text, (answer.get("undo") or {}).get("id"))

    def _was_done(self, fields: Fields) -> str:
        what = self.what_of(fields)
        if not str(self.what).startswith("{"):  # a name keeps its first letter
            what = what[:1].upper() + what[1:]
        return f"{what} was {self.pasts[1]}."

    def back_of(self, links: Links, fields: Fields, *, is_cancelled: bool = False) -> str:
        """Return the address of the page that follows, or of the one where the action began."""
        back = self.cancel if is_cancelled and self.cancel else self.back
        if not isinstance(back, str):
            return back(links, fields)
        return links.url(path_with(back, fields))

    def command_of(self, fields: Fields) -> list[str]:
        """Return the words of the same command of the program; none if there is none."""
        if self.why_not:
            return []
        if callable(self.command):
            return self.command(fields)
        if self.command:
            return [_fill(word, fields) for word in self.command.split()]
        names = [one(fields, name) for name in self.path_names]
        return [*_COMMANDS[self.route].split(), *positional(*names, *fields.get("ids", ()))]

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
