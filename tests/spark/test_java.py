"""Java is found in all usual places, and its absence is one clear error. The javas here are shell scripts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidings.errors import InputError
from tidings.spark import java
from tidings.spark.java import find_java_home, java_version, require_java


def fake_java(home: Path, version: str, *, reports_home: bool = False) -> Path:
    """Create a home whose java reports this version as real ones do: on stderr, after other output."""
    (home / "bin").mkdir(parents=True)
    (home / "lib").mkdir()
    command = home / "bin" / "java"
    lines = ["#!/bin/sh", "echo 'Picked up JAVA_TOOL_OPTIONS: -Dversion=9' >&2"]
    if reports_home:
        lines.append(f"echo '    java.home = {home}' >&2")
    lines.append(f"echo 'openjdk version \"{version}\" 2025-04-15' >&2")
    command.write_text("\n".join(lines) + "\n")
    command.chmod(0o755)
    return home


@pytest.fixture
def jvms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Java; the directory is its /usr/lib/jvm."""
    empty = tmp_path / "path"
    empty.mkdir()
    directory = tmp_path / "jvm"
    directory.mkdir()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(empty))
    monkeypatch.setattr(java, "SYSTEM_JVMS", directory)
    return directory


@pytest.mark.parametrize(
    ("reported", "major"),
    [("17.0.15", 17), ("1.8.0_392", 8), ("21-ea", 21), ("25", 25), ("11.0.2", 11), ("9", 9)],
)
def test_all_version_formats_are_parsed(tmp_path: Path, reported: str, major: int) -> None:
    assert java_version(fake_java(tmp_path / "home", reported) / "bin" / "java") == major


def test_no_java_gives_no_home(jvms: Path) -> None:
    assert find_java_home(jvms) is None


def test_java_home_variable_is_preferred(jvms: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(jvms / "java-17", "17.0.1")
    preferred = fake_java(tmp_path / "mine", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(preferred))
    assert find_java_home(jvms) == str(preferred)


def test_old_java_home_is_skipped_for_java_on_path(jvms: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = fake_java(tmp_path / "good", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "1.8.0_392")))
    monkeypatch.setenv("PATH", str(good / "bin"))
    assert find_java_home(jvms) == str(good)


def test_old_java_on_path_is_skipped_for_an_installed_one(
    jvms: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "old", "11.0.2") / "bin"))
    good = fake_java(jvms / "java-17", "17.0.1")
    assert find_java_home(jvms) == str(good)


def test_oldest_supported_installed_java_is_used(jvms: Path) -> None:
    for version in ("25", "21.0.1", "17.0.9", "11.0.2"):
        fake_java(jvms / f"java-{version}", version)
    assert find_java_home(jvms) == str(jvms / "java-17.0.9")


def test_symlink_on_path_resolves_to_its_home(jvms: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path / "elsewhere", "17.0.1")
    links = tmp_path / "usr" / "bin"
    links.mkdir(parents=True)
    (links / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", str(links))
    assert find_java_home(jvms) == str(home)


def test_shim_of_a_version_manager_reports_its_home(
    jvms: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = fake_java(tmp_path / "managed", "21.0.1", reports_home=True)
    shims = tmp_path / "shims"
    shims.mkdir()
    (shims / "java").write_text(f'#!/bin/sh\nexec {home}/bin/java "$@"\n')
    (shims / "java").chmod(0o755)
    monkeypatch.setenv("PATH", str(shims))
    assert find_java_home(jvms) == str(home)


@pytest.mark.parametrize("content", ["", "#!/bin/sh\nexit 1\n", "#!/bin/sh\necho no version here\n", "\x7fELF garbage"])
def test_broken_java_is_skipped(jvms: Path, content: str) -> None:
    broken = jvms / "broken"
    (broken / "bin").mkdir(parents=True)
    (broken / "bin" / "java").write_text(content)
    (broken / "bin" / "java").chmod(0o755)
    assert find_java_home(jvms) is None


def test_nonexistent_java_home_is_skipped(jvms: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere/at/all")
    assert find_java_home(jvms) is None


def test_missing_java_is_an_error_with_a_remedy(jvms: Path) -> None:
    with pytest.raises(InputError, match=r"Java 17 or later was not found"):
        require_java()


def test_require_java_sets_java_home(jvms: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = fake_java(jvms / "java-17", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "1.8.0_392")))
    require_java()
    assert os.environ["JAVA_HOME"] == str(good)


def test_setup_can_run_the_file_before_anything_is_installed(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", "17.0.1")
    answer = subprocess.run(
        [sys.executable, "-I", "-S", java.__file__], env={"JAVA_HOME": str(home)}, capture_output=True, check=True
    )
    assert answer.stdout.decode().strip() == str(home)
