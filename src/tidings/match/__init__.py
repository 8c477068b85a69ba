"""The room of matchers, and, called, the function users know: ``tidings.match(posts, subscriptions)``.

Python gives a package and a function of the same name one attribute; whichever was imported last would win. So the
room itself can be called.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Room(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from tidings.spark.api import match

        return match(*arguments, **options)


sys.modules[__name__].__class__ = _Room
