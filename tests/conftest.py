"""The same commit gives the same random examples, so failures are repeatable; `make fuzz` tries new ones."""

from hypothesis import settings

pytest_plugins = ["tests.spark.fixtures"]

settings.register_profile("repeatable", derandomize=True)
settings.register_profile("fresh", derandomize=False, print_blob=True)
settings.load_profile("repeatable")
