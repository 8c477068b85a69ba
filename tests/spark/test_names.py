"""`tidings.match` is a function, although the room of matchers has the same name."""

from __future__ import annotations

import pytest
from tests.spark.fixtures import run_python


@pytest.mark.parametrize(
    "before",
    [
        "import tidings",
        "import tidings.matching.brute_force",
        "from tidings.matching.brute_force import scan",
        "import tidings; tidings.match",
        "from tidings import match; import tidings.matching.segment_matcher",
        "import tidings.spark.api",
    ],
)
def test_tidings_match_can_be_called_whatever_was_imported_before(before):
    code = f"{before}\nimport tidings\nfrom tidings import match\nassert callable(tidings.match) and callable(match)"
    run_python(
        code + "\nimport tidings.matching.postings_kernel\nassert callable(tidings.match) and callable(tidings.session)"
    )
