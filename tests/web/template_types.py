"""
Follows the types of values through a template, as a type checker does through code.

It follows attributes, keys, loops, ``set``, macros, imports, and the base of a template. It ends at
Any, at a mapping whose keys have no names, and behind most filters, whose results are texts.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import NoneType, UnionType
from typing import Any, ClassVar, Union, get_args, get_origin, get_type_hints, is_typeddict

from jinja2 import Environment, nodes

#: Filters that return an element, and those that return the same elements.
_ELEMENT, _ELEMENTS = {"first", "last"}, {"reverse", "list", "selectattr", "rejectattr", "sort"}


@dataclass(frozen=True)
class Method:
    """A method of a value, and its result."""

    result: Any


@dataclass(frozen=True, eq=False)
class _Macro:
    node: nodes.Macro
    names: dict[str, Any]


@cache
def hints(record: Any) -> dict[str, Any]:
    """Return the types of the attributes of a class, or of a function."""
    found = get_type_hints(record)
    return {k: get_args(v)[0] if get_origin(v) is ClassVar else v for k, v in found.items()}


def _parts(form: Any) -> list[Any]:
    """Return the alternatives of a type without None."""
    parts = get_args(form) if get_origin(form) in {Union, UnionType} else (form,)
    return [each for each in parts if each is not NoneType]


def _either(forms: Sequence[Any]) -> Any:
    if any(isinstance(each, Method | _Macro) for each in forms):
        return Any
    return Union[tuple(forms)] if forms else Any  # noqa: UP007 - of a sequence


def _element(form: Any) -> Any:
    """Return the type of the elements of a value."""
    found = []
    for each in _parts(form):
        args, origin = get_args(each), get_origin(each)
        if is_typeddict(each) or each is str:
            found.append(str)
        elif origin is tuple and args[1:] != (...,):
            found.append(_either(args))
        else:
            found.append(args[0] if args else Any)
    return _either(found)


@dataclass
class TemplateTypes:
    """Finds names in templates that their values do not have."""

    environment: Environment
    wrong: list[str] = field(default_factory=list)
    template: str = ""
    _modules: dict[str, dict[str, Any]] = field(default_factory=dict)
    _called: set[Any] = field(default_factory=set)

    def check(self, template: str, names: Mapping[str, Any]) -> None:
        """Check a template, and those that it extends, with the types of its values."""
        self.template = template
        self._run(self._parse(template).body, dict(names))

    def _parse(self, template: str) -> nodes.Template:
        source, _, _ = self.environment.loader.get_source(self.environment, template)
        return self.environment.parse(source)

    def _complain(self, node: nodes.Node, text: str) -> Any:
        self.wrong.append(f"{self.template}:{node.lineno}: {text}")
        return Any

    # -- statements

    def _run(self, body: Sequence[nodes.Node], names: dict[str, Any]) -> None:
        for each in body:
            match each:
                case nodes.Extends(template=nodes.Const(value=str(base))):
                    self._run(self._parse(base).body, dict(names))
                case nodes.FromImport(template=nodes.Const(value=str(source))):
                    module = self._module(source)
                    for imported in each.names:
                        name, local = (imported,) * 2 if isinstance(imported, str) else imported
                        names[local] = module.get(name) or self._complain(each, f"no {name}")
                case nodes.Macro():
                    names[each.name] = _Macro(each, names)
                case nodes.Block():
                    self._run(each.body, dict(names))
                case nodes.For():
                    inner = {**names, "loop": Any}
                    self._bind(each.target, _element(self.of(each.iter, names)), inner)
                    self._visit(each.test, inner)
                    self._run(each.body, inner)
                    self._run(each.else_, names)
                case nodes.If():
                    self.of(each.test, names)
                    self._run([*each.body, *each.elif_, *each.else_], names)
                case nodes.Assign():
                    self._bind(each.target, self.of(each.node, names), names)
                case nodes.Output():
                    for expression in each.nodes:
                        self.of(expression, names)
                case _:
                    self._complain(each, f"unknown statement {type(each).__name__}")

    def _module(self, source: str) -> dict[str, Any]:
        if source not in self._modules:
            self._modules[source] = {}
            self._run(self._parse(source).body, self._modules[source])
        return self._modules[source]

    def _bind(self, target: nodes.Node, form: Any, names: dict[str, Any]) -> None:
        if isinstance(target, nodes.Name):
            names[target.name] = form
            return
        args = [get_args(each) for each in _parts(form) if get_origin(each) is tuple]
        for number, each in enumerate(target.items):
            if args and any(len(one) != len(target.items) for one in args):
                self._complain(target, f"{len(target.items)} names for {form}")
                args = []
            self._bind(each, _either([one[number] for one in args]), names)

    # -- expressions

    def _visit(self, node: nodes.Node | None, names: dict[str, Any]) -> None:
        if node is not None:
            self.of(node, names)

    def of(self, node: nodes.Node, names: dict[str, Any]) -> Any:  # noqa: PLR0911 - of each kind
        """Return the type of an expression; Any if it is not known."""
        match node:
            case nodes.Name():
                if node.name in names:
                    return names[node.name]
                return self._complain(node, f"there is no {node.name}")
            case nodes.Const():
                return type(node.value)
            case nodes.Getattr():
                return self._member(node, self.of(node.node, names), node.attr)
            case nodes.Getitem(arg=nodes.Const(value=str(key))):
                return self._member(node, self.of(node.node, names), key)
            case nodes.Getitem():
                return self._item(node, names)
            case nodes.Call():
                return self._call(node, names)
            case nodes.Filter():
                return self._filter(node, names)
            case nodes.CondExpr():
                self.of(node.test, names)
                branches = [each for each in (node.expr1, node.expr2) if each is not None]
                return _either([self.of(each, names) for each in branches])
            case nodes.And() | nodes.Or():
                return _either([self.of(node.left, names), self.of(node.right, names)])
            case nodes.Tuple():
                return tuple[tuple(self.of(each, names) for each in node.items)]
        for child in node.iter_child_nodes():
            self.of(child, names)
        return Any

    def _item(self, node: nodes.Getitem, names: dict[str, Any]) -> Any:
        form = self.of(node.node, names)
        self.of(node.arg, names)
        if isinstance(node.arg, nodes.Slice):
            return form
        args = get_args(form)
        if isinstance(node.arg, nodes.Const) and get_origin(form) is tuple and args[1:] != (...,):
            return args[node.arg.value]
        is_mapping = inspect.isclass(get_origin(form)) and issubclass(get_origin(form), Mapping)
        return args[1] if is_mapping else _element(form)

    def _member(self, node: nodes.Node, form: Any, name: str) -> Any:
        """Return the type of an attribute or a key of a value."""
        found = []
        for each in _parts(form):
            origin, args = get_origin(each) or each, get_args(each)
            if not inspect.isclass(origin) or origin in {Any, object}:
                return Any
            if is_typeddict(each) and name not in hints(each):
                origin = dict
            known = {} if args else hints(origin)
            own = inspect.getattr_static(origin, name, None)
            if name in known:
                found.append(known[name])
            elif isinstance(own, property):
                found.append(hints(own.fget)["return"])
            elif own is not None and issubclass(origin, Mapping) and name == "items" and args:
                found.append(Method(list[tuple[args]]))
            elif own is not None:
                found.append(Method(getattr(own, "__annotations__", {}) and _result(own)))
            elif issubclass(origin, Mapping) and not is_typeddict(each):
                found.append(args[1] if args else Any)
            else:
                return self._complain(node, f"{getattr(each, '__name__', each)} has no {name}")
        return found[0] if len(found) == 1 else _either(found)

    def _call(self, node: nodes.Call, names: dict[str, Any]) -> Any:
        target = self.of(node.node, names)
        args = [self.of(each, names) for each in node.args]
        named = {each.key: self.of(each.value, names) for each in node.kwargs}
        self._visit(node.dyn_args, names)
        self._visit(node.dyn_kwargs, names)
        if isinstance(target, Method):
            return target.result or Any
        if not isinstance(target, _Macro):
            return Any
        parameters = [each.name for each in target.node.args]
        values = {**dict(zip(parameters, args, strict=False)), **named}
        takes_more = any(each.name == "kwargs" for each in target.node.find_all(nodes.Name))
        for each in () if takes_more else values.keys() - set(parameters):
            self._complain(node, f"{target.node.name} has no parameter {each}")
        key = target, tuple((name, str(form)) for name, form in sorted(values.items()))
        if key not in self._called:
            self._called.add(key)
            own = {**target.names, "varargs": Any, "kwargs": Any, **dict.fromkeys(parameters, Any)}
            self._run(target.node.body, {**own, **values})
        return Any

    def _filter(self, node: nodes.Filter, names: dict[str, Any]) -> Any:
        form = self.of(node.node, names)
        for child in [*node.args, *(each.value for each in node.kwargs)]:
            self.of(child, names)
        if node.name in _ELEMENT:
            return _element(form)
        if node.name in _ELEMENTS:
            return list[_element(form)]
        if node.name == "dictsort" and get_args(form):
            return list[tuple[get_args(form)]]
        return Any


def _result(method: Any) -> Any:
    return hints(method).get("return", Any)
