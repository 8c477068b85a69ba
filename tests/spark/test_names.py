"""The public names of the package resolve to functions, in any order of imports."""

from __future__ import annotations

from tests.spark.fixtures import run_python

PROGRAM = """
import sys
import tidings
assert not any(name.partition(".")[0] in ("pyspark", "numba", "pyarrow") for name in sys.modules), "import is cheap"
import tidings.matching
from tidings.matching.brute_force import match_all
from tidings import match, rejected, session
import tidings.spark.api
assert tidings.match is match is tidings.spark.api.match and callable(match)
assert tidings.matching.__name__ == "tidings.matching"
assert (match.__name__, rejected.__name__, session.__name__) == ("match", "rejected", "session")
assert set(tidings.__all__) <= set(dir(tidings))
try:
    tidings.nothing
except AttributeError as error:
    assert str(error) == "module 'tidings' has no attribute 'nothing'"
help(tidings.match)
"""


def test_public_names_are_functions_with_help():
    text = run_python(PROGRAM).stdout
    assert text.startswith("Help on function match in module tidings.spark.api:")
    assert "Raises:" in text
