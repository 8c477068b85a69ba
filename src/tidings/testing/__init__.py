"""Tools for tests of programs that use or extend Tidings."""
