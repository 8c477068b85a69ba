"""Processes of a running service, found by their command lines (Linux)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

WORKER = "worker"
_COMMANDS = {"serve": "serve", "run": "driver", "crawl": "crawler", "webhooks": "sender"}
_CLI_MODULE = "tidings.cli.main"
_DAEMON_MODULE = "tidings.spark.daemon"


def descendants(pid: int) -> list[int]:
    """Return all descendants of a process, parents before their children."""
    by_parent: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if fields[0] != "Z":
            by_parent.setdefault(int(fields[1]), []).append(int(status.parent.name))
    found, generation = list[int](), [pid]
    while generation:
        generation = [child for parent in generation for child in by_parent.get(parent, [])]
        found += generation
    return found


def read_arguments(pid: int) -> list[str]:
    """Return the command line of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace").split("\0")[:-1]
    except OSError:
        return []


def read_parent(pid: int) -> int:
    """Return the id of the parent of a process; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def find_role(arguments: Sequence[str], parent_arguments: Sequence[str] = ()) -> str | None:
    """Return the role of a process: serve, driver, jvm, daemon, worker, crawler or sender. None for other processes.

    The JVM and the workers of the crawler belong to the crawler. Short-lived children of a JVM, which share its memory
    and its command line until they call `exec`, have no role.
    """
    if _DAEMON_MODULE in arguments:
        return WORKER if _DAEMON_MODULE in parent_arguments else "daemon"
    if _CLI_MODULE in arguments[:-1]:
        return _COMMANDS.get(arguments[arguments.index(_CLI_MODULE) + 1])
    if arguments and Path(arguments[0]).name == "java" and list(arguments) != list(parent_arguments):
        return "crawler" if find_role(parent_arguments or ("",)) == "crawler" else "jvm"
    return None


def find_processes(root: int, role: str) -> list[int]:
    """Return the processes with a role among a process and its descendants."""
    pids = [root, *descendants(root)]
    return [pid for pid in pids if find_role(read_arguments(pid), read_arguments(read_parent(pid))) == role]
