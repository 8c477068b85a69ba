"""The same commit gives the same examples, so a red run is red again; `make fuzz` looks for new ones."""

from hypothesis import settings

pytest_plugins = ["tests.spark.fixtures"]

settings.register_profile("repeatable", derandomize=True)
settings.register_profile("fresh", derandomize=False, print_blob=True)
settings.load_profile("repeatable")
