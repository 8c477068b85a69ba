"""Tools for tests of programs that use or extend Tidings."""

from tidings.testing.spark import lean_spark_environment, lean_spark_settings

__all__ = ["lean_spark_environment", "lean_spark_settings"]
