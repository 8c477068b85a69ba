"""Find the Java that runs Spark: version 17 or later, in JAVA_HOME, on PATH, or under /usr/lib/jvm.

This file imports only the standard library at the top, because `make setup` runs it before anything is installed
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
_TIMEOUT_SECONDS = 30  # a JVM answers in 0.1 s, on a busy machine later; a broken one must not block
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')  # "17.0.15", "21-ea", and "1.8.0_392" for Java 8
_HOME = re.compile(r"^\s*java\.home = (.+?)\s*$", re.MULTILINE)


def find_java_home(system_jvms: Path | None = None) -> str | None:
    """Return the home of the Java for Spark, or None if no Java has version 17 or later."""
    for home in _candidate_homes(system_jvms or SYSTEM_JVMS):
        if (java_version(home / "bin" / "java") or 0) >= MINIMUM_VERSION:
            return str(home)
    return None


def require_java() -> None:
    """Set JAVA_HOME for this process to a Java of version 17 or later, or raise InputError."""
    from tidings.errors import InputError

    home = find_java_home()
    if home is None:
        raise InputError(
            f"Java {MINIMUM_VERSION} or later was not found. Install one (on Debian or Ubuntu: sudo apt-get install "
            "openjdk-17-jre-headless), or set JAVA_HOME."
        )
    os.environ["JAVA_HOME"] = home


def java_version(java: Path) -> int | None:
    """Return the major version of a java command, or None if it does not exist or does not run."""
    version = _VERSION.search(_run_java(java, "-version"))
    if version is None:
        return None
    major = int(version[1])
    return int(version[2] or 0) if major == 1 else major


def _candidate_homes(system_jvms: Path) -> Iterator[Path]:
    """Yield possible homes in order of preference; lazily, because trying one starts a process."""
    if configured := os.environ.get("JAVA_HOME"):
        yield Path(configured)
    if (command := shutil.which("java")) and (home := _home_of_command(Path(command))):
        yield home
    installed = {path.resolve() for path in system_jvms.glob("*") if (path / "bin" / "java").exists()}
    # oldest first: Spark has been tested on it for longest
    yield from sorted(installed, key=lambda home: (java_version(home / "bin" / "java") or 0, home.name))


def _home_of_command(java: Path) -> Path | None:
    """Return the home of a java command on PATH, even if the command is the shim of a version manager."""
    home = java.resolve().parent.parent
    if (home / "lib").is_dir() and (home / "bin" / "java").resolve() == java.resolve() and home != Path("/usr"):
        return home
    reported = _HOME.search(_run_java(java, "-XshowSettings:properties", "-version"))
    return Path(reported[1]) if reported else None


def _run_java(java: Path, *options: str) -> str:
    """Return the output of the command on both streams, or an empty string if it fails."""
    try:
        answer = subprocess.run(
            [str(java), *options], capture_output=True, timeout=_TIMEOUT_SECONDS, stdin=subprocess.DEVNULL, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (answer.stderr + answer.stdout).decode("utf-8", "replace") if answer.returncode == 0 else ""


if __name__ == "__main__":
    chosen = find_java_home()
    if chosen is None:
        sys.exit(1)
    sys.stdout.write(chosen + "\n")
