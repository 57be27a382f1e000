"""
Runs actions: confirms them, calls their entries of the API, and says what was done.
"""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from urllib.parse import quote

from redis.exceptions import RedisError
from starlette.responses import Response

from rsmq.errors import RSMQError
from rsmq.web.access.sessions import decode_payload, read_cookie
from rsmq.web.api import Api
from rsmq.web.fields import Field, Refused, Shape
from rsmq.web.pages.actions import BY_NAME
from rsmq.web.pages.actions.form import TYPED, Effect, Fields, Input, PageAction, one, path_with
from rsmq.web.pages.formats import show_name
from rsmq.web.pages.links import Links
from rsmq.web.pages.table import PageCall
from rsmq.web.problems import HttpProblem, describe
from rsmq.web.table import RawBody, Route

_FLASH_SECONDS = 60
#: Characters of the cookie: browsers store no longer ones.
_MAX_FLASH = 4096


@dataclass(frozen=True, slots=True)
class Flash:
    """
    A text that the next page shows once.

    A cookie carries it, so no address can make a page say something.

    Attributes:
        address: of the next page.
        undo: the id with which it can be undone.
        queue: the queue to which it links; None without a link.
    """

    cookie: ClassVar[str] = "rsmq-done"

    text: str
    undo: str | None
    address: str
    queue: str | None = None

    def store(self, response: Response, path: str, *, is_secure: bool) -> None:
        """Send it to the browser."""
        content = json.dumps([self.text, self.undo, self.queue]).encode()
        response.set_cookie(
            self.cookie, base64.urlsafe_b64encode(content).decode(), max_age=_FLASH_SECONDS,
            path=path, secure=is_secure, httponly=True, samesite="strict",
        )  # fmt: skip


def read_flash(headers: Mapping[str, str]) -> Flash | None:
    """Return what this page says once."""
    value = read_cookie(headers, Flash.cookie)
    try:
        match decode_payload(value or "", _MAX_FLASH):
            case [str(text), str() | None as undo, str() | None as queue]:
                return Flash(text, undo, "", queue)
    except ValueError:
        pass
    return None


#: Of an action whose effect stores a preview, before it is asked for.
_UNCOUNTED = Effect("First the messages are counted. Then this page asks again.")
_COUNT = "Count them"


@dataclass(frozen=True, slots=True)
class ActionPage:
    """
    The page that confirms an action.

    Attributes:
        inputs: the fields to fill in, each with its value.
        hidden: further fields of its form.
        button: the words of its button.
        problem: why the action was not run.
        command: the line of the program; None without one.
        curl: the line of ``curl``; None before the preview.
        back: the address of the page where the action began.
    """

    typed_field: ClassVar[str] = TYPED

    action: PageAction
    title: str
    effect: Effect
    inputs: list[tuple[Input, str]]
    hidden: list[tuple[str, str]]
    button: str
    problem: HttpProblem | None
    command: str | None
    curl: str | None
    back: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A requested action, and the fields of its form."""

    action: PageAction
    call: PageCall
    fields: Fields
    links: Links


class Actions:
    """The actions of a server."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def find(self, name: str) -> PageAction:
        """
        Return an action.

        Raises:
            Refused: there is none with this name.
        """
        found = BY_NAME.get(name)
        if found is None:
            raise Refused("notFound", "There is no such action", status=404, value=name[:80])
        return found

    async def confirm(self, asked: Asked) -> ActionPage:
        """
        Return the page that confirms an action.

        Raises:
            Refused: the caller may not do it, or a field is not one of the action.
        """
        self._check(asked, is_form=False)
        if asked.action.preview:
            page = self._page(asked, _UNCOUNTED, None)
            return replace(page, button=_COUNT, command=None, curl=None)
        return await self._confirm(asked)

    async def _confirm(self, asked: Asked) -> ActionPage:
        return self._page(asked, await asked.action.effect_of(asked.call, asked.fields), None)

    async def run(self, asked: Asked) -> Flash | ActionPage:
        """
        Run an action; if that fails, return the page that confirms it.

        A form without the preview that the action needs gets it: that page, too.

        Raises:
            Refused: the caller may not do it, or a field is not one of the action.
        """
        self._check(asked, is_form=True)
        action, call, fields = asked.action, asked.call, asked.fields
        if action.preview and fields.keys().isdisjoint(action.preview):
            return await self._confirm(asked)
        effect, route = Effect(""), action.entry
        try:
            effect = await action.effect_of(call, fields)
            _check_typed(effect, fields)
            names = {name: one(fields, name) for name in action.path_names}
            query, content = self._read(route, fields, effect.entry)
            answer = await self._api.call(
                call.caller, route.method, route.path, names, query=query,
                content={**content, **action.fixed},
            )  # fmt: skip
        except (Refused, RSMQError, RedisError, OSError) as error:
            return self._page(asked, effect, describe(error, may_repeat=False))
        done = action.done_of(fields, answer.content)
        text = f"{done.text}{await self._follow_up(asked)}"
        return Flash(text, done.undo, action.back_of(asked.links, fields), done.queue)

    async def _follow_up(self, asked: Asked) -> str:
        """Call the second entry of an action; return what is said of it."""
        then = asked.action.then and asked.action.then(asked.fields)
        if then is None:
            return ""
        try:
            await self._api.call(asked.call.caller, then.method, then.path, then.names)
        except (Refused, RSMQError, RedisError, OSError) as error:
            problem = describe(error, may_repeat=False)
            return f" But it was not done that {then.text}: {problem.detail}."
        return f" Then {then.text}."

    def _check(self, asked: Asked, *, is_form: bool) -> None:
        for scope in asked.action.scopes:
            asked.call.check(scope, one(asked.fields, "queue") or None)
        asked.action.check_fields(asked.fields, is_form=is_form)

    def _read(
        self, route: Route, fields: Fields, entry: Mapping[str, str]
    ) -> tuple[list[tuple[str, str]], dict[str, Any]]:
        """Return the fields of the query, and those of the body as values of JSON."""
        query = [(each.name, one(fields, each.name)) for each in route.query if each.name in fields]
        body = () if isinstance(route.body, RawBody) else route.body
        filled = {name: values for name, values in fields.items() if values != [""]}
        filled |= {name: [value] for name, value in entry.items()}
        return query, {
            each.name: _value_of(each, filled[each.name]) for each in body if each.name in filled
        }

    def _page(self, asked: Asked, effect: Effect, problem: HttpProblem | None) -> ActionPage:
        action = asked.action
        # Those of the effect have values, and are in the place of the same ones of the action.
        own = {each.name for each in effect.inputs}
        inputs = (*effect.inputs, *(each for each in action.form_inputs if each.name not in own))
        # With what the page sends, so that the line of curl does the same.
        filled = {each.name: [each.value] for each in inputs if each.value and each.kind != "area"}
        sent = {k: [v] if isinstance(v, str) else [*v] for k, v in effect.hidden.items()}
        fields = {**filled, **asked.fields, **sent}
        asked = replace(asked, fields=fields)
        words = action.command_of(fields)
        if words and asked.links.namespace:
            words = [*words, "--ns", asked.links.namespace]
        typed = {TYPED, *(each.name for each in inputs)}
        hidden = [
            (name, value)
            for name, values in fields.items()
            if name not in typed
            for value in values
        ]
        return ActionPage(
            action, action.title_of(fields), effect,
            [(each, one(fields, each.name, each.value)) for each in inputs], hidden, action.label,
            problem, shlex.join(["rsmq", *words]) if words else None,
            self._curl(asked, effect.entry), action.back_of(asked.links, fields, is_cancelled=True),
        )  # fmt: skip

    def _curl(self, asked: Asked, entry: Mapping[str, str]) -> str:
        action, fields = asked.action, asked.fields
        route = action.entry

        path = path_with(route.path, fields)
        try:
            query, content = self._read(route, fields, entry)
        except Refused:
            query, content = [], {}
        content |= action.fixed
        pairs = "&".join(f"{k}={quote(v, safe='', errors='surrogateescape')}" for k, v in query)
        words = ["curl", "-u", ":KEY", "-X", route.method]
        words.append(f"{asked.call.api_url}{path}{'?' if pairs else ''}{pairs}")
        if content:
            words += ["--json", json.dumps(content)]
        return show_name(shlex.join(words))


def _check_typed(effect: Effect, fields: Fields) -> None:
    if effect.name_to_type is not None and one(fields, TYPED) != effect.name_to_type:
        raise Refused(
            "nameNotTyped",
            "The name that was typed is another one",
            hint=f"Type {show_name(effect.name_to_type)}, so that the right one is changed.",
        )


def _value_of(each: Field, texts: Any) -> Any:
    if each.kind is Shape.TEXTS:
        return list(texts)
    text = texts[0]
    if each.kind is Shape.ANY:
        try:
            return json.loads(text)
        except ValueError:
            raise Refused("invalidJson", f"{each.name} is not JSON") from None
    try:
        return each.kind.value.of_text(text)
    except ValueError:
        raise Refused(
            "invalidFormat", f"The field {each.name} is not {each.kind.value.what}", value=text[:80]
        ) from None
