"""`tidings.match` is a function, although the room of matchers has the same name."""

from __future__ import annotations

import pytest
from tests.spark.conftest import run_python


@pytest.mark.parametrize(
    "before",
    [
        "import tidings",
        "import tidings.match.scan",
        "from tidings.match.scan import scan",
        "import tidings; tidings.match",
        "from tidings import match; import tidings.match.matcher",
        "import tidings.spark.api",
    ],
)
def test_tidings_match_can_be_called_whatever_was_imported_before(before):
    code = f"{before}\nimport tidings\nfrom tidings import match\nassert callable(tidings.match) and callable(match)"
    run_python(code + "\nimport tidings.match.flat\nassert callable(tidings.match) and callable(tidings.session)")
