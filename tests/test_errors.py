"""Every error survives pickling, and the tree in the docstring is the tree of the code."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

from tidings import errors
from tidings.extras import explain_missing

CLASSES = [value for _, value in inspect.getmembers(errors, inspect.isclass) if value.__module__ == errors.__name__]
ARGUMENTS: dict[str, tuple[object, ...]] = {
    "QueryError": ("Unbalanced parenthesis.", 4),
    "MissingExtraError": ("SQLite support", "tidings[stream]"),
    "IndexDamaged": ("/index", "a file is missing"),
    "StoreDamaged": ("/store", "it is truncated"),
    "QuotaExceeded": ("Quota reached.", 3.5),
    "UnknownSubscription": (7, "was removed"),
    "UnknownFeed": (7,),
}


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_an_error_survives_pickling(kind: type[errors.TidingsError]) -> None:
    error = kind(*ARGUMENTS.get(kind.__name__, ("name",)))
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert (str(copy), vars(copy)) == (str(error), vars(error))


def test_the_docstring_draws_the_whole_tree() -> None:
    lines = re.findall(r"^ {4}([│├└─ ]*)(\w+)", errors.__doc__ or "", re.MULTILINE)
    path: list[str] = []
    drawn: dict[str, str] = {}
    for indent, name in lines:
        path[len(indent) // 4 :] = [name]
        drawn[name] = path[-2] if len(path) > 1 else "Exception"
    assert drawn == {kind.__name__: kind.__base__.__name__ for kind in CLASSES}


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("apsw", "SQLite support is not installed. Install it with: pip install 'tidings[stream]'"),
        ("psycopg.rows", "PostgreSQL support is not installed. Install it with: pip install 'tidings[postgres]'"),
        ("uvicorn", "The web service is not installed. Install it with: pip install 'tidings[serve]'"),
    ],
)
def test_a_missing_module_names_its_extra(module: str, message: str) -> None:
    assert str(explain_missing(ModuleNotFoundError(name=module))) == message


@pytest.mark.parametrize("module", ["nosuchmodule", None, ""])
def test_a_module_of_no_extra_is_not_explained(module: str | None) -> None:
    assert explain_missing(ModuleNotFoundError(name=module)) is None
