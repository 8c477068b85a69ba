"""Which Java runs Spark: the first of at least version 17 in JAVA_HOME, on PATH, or under /usr/lib/jvm.

Only the standard library, and no import of Tidings at the top: the set-up runs this file before anything is installed
(``python -P src/tidings/spark/java.py`` prints the home, or exits with 1).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MINIMUM_VERSION = 17
SYSTEM_JVMS = Path("/usr/lib/jvm")
_ANSWER_SECONDS = 30  # a JVM answers in 0.1 s; a crowded machine may need longer, a broken one must not hang us
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')  # "17.0.15", "21-ea", and "1.8.0_392" for Java 8
_HOME = re.compile(r"^\s*java\.home = (.+?)\s*$", re.MULTILINE)


def find_java_home(system_jvms: Path | None = None) -> str | None:
    """The home of the Java that Spark should use, or None when there is none of version 17 or later."""
    for home in _candidate_homes(system_jvms or SYSTEM_JVMS):
        if (java_version(home / "bin" / "java") or 0) >= MINIMUM_VERSION:
            return str(home)
    return None


def require_java() -> None:
    """Make sure Spark will start with Java 17 or later: sets JAVA_HOME for this process, or raises InputError."""
    from tidings.errors import InputError

    home = find_java_home()
    if home is None:
        raise InputError(
            f"Spark needs Java {MINIMUM_VERSION} or later and none was found: run `make setup`, or install one "
            "(on Debian or Ubuntu: sudo apt-get install openjdk-17-jre-headless), or set JAVA_HOME to it."
        )
    os.environ["JAVA_HOME"] = home


def java_version(java: Path) -> int | None:
    """The major version that this java command reports; None when it is not there or does not run."""
    found = _VERSION.search(_ask(java, "-version"))
    if found is None:
        return None
    major = int(found[1])
    return int(found[2] or 0) if major == 1 else major


def _candidate_homes(system_jvms: Path) -> Iterator[Path]:
    """Where Java may live, most wanted first; lazily, as each one that is tried costs a process."""
    if configured := os.environ.get("JAVA_HOME"):
        yield Path(configured)
    if (command := shutil.which("java")) and (home := _home_of_command(Path(command))):
        yield home
    installed = {path.resolve() for path in system_jvms.glob("*") if (path / "bin" / "java").exists()}
    # the oldest that will do first: Spark is tested longest on it
    yield from sorted(installed, key=lambda home: (java_version(home / "bin" / "java") or 0, home.name))


def _home_of_command(java: Path) -> Path | None:
    """The home that a java command on PATH belongs to, also when the command is a version manager's shim."""
    home = java.resolve().parent.parent
    if (home / "lib").is_dir() and (home / "bin" / "java").resolve() == java.resolve() and home != Path("/usr"):
        return home
    told = _HOME.search(_ask(java, "-XshowSettings:properties", "-version"))
    return Path(told[1]) if told else None


def _ask(java: Path, *options: str) -> str:
    """What the command prints, on either stream; nothing when it cannot run."""
    try:
        answer = subprocess.run(
            [str(java), *options], capture_output=True, timeout=_ANSWER_SECONDS, stdin=subprocess.DEVNULL, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (answer.stderr + answer.stdout).decode("utf-8", "replace") if answer.returncode == 0 else ""


if __name__ == "__main__":
    chosen = find_java_home()
    if chosen is None:
        sys.exit(1)
    sys.stdout.write(chosen + "\n")
