"""Group the options of a command in dataclasses, which Typer itself cannot do."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import copy
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from typer.models import OptionInfo, ParameterInfo


def expand_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command for Typer whose options are the fields of the dataclasses that `command` takes.

    A dataclass with the class variable PANEL gets a panel with that title in --help.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if is_dataclass(hint) and isinstance(hint, type)}
    names = {group: [field.name for field in fields(hint)] for group, hint in groups.items()}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            parameters += _parameters_of(groups[name])
        else:
            parameters.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))

    def call_with_groups(**values: Any) -> None:
        grouped = {group: hint(**{name: values.pop(name) for name in names[group]}) for group, hint in groups.items()}
        command(**grouped, **values)

    call_with_groups.__name__, call_with_groups.__doc__ = command.__name__, command.__doc__
    call_with_groups.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    call_with_groups.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return call_with_groups


def _parameters_of(group: type) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    panel = getattr(group, "PANEL", None)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_default_of(field),
            annotation=_with_panel(hints[field.name], panel),
        )
        for field in fields(group)
    ]


def _default_of(field: Field[Any]) -> Any:
    return inspect.Parameter.empty if field.default is MISSING else field.default


def _with_panel(annotation: Any, panel: str | None) -> Any:
    if panel is None or get_origin(annotation) is not Annotated:
        return annotation
    kind, *extras = get_args(annotation)
    return Annotated[kind, *(_in_panel(extra, panel) for extra in extras)]


def _in_panel(extra: Any, panel: str) -> Any:
    if not isinstance(extra, ParameterInfo):
        return extra
    info = copy(extra)
    if isinstance(info, OptionInfo):
        info.rich_help_panel = panel
    return info
