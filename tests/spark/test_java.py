"""Java is found wherever it may be, and its absence is told in one sentence. The javas here are shell scripts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidings.errors import InputError
from tidings.spark import java
from tidings.spark.java import find_java_home, java_version, require_java


def fake_java(home: Path, version: str, *, says_home: bool = False) -> Path:
    """A home whose java reports this version the way real ones do: on stderr, after other chatter."""
    (home / "bin").mkdir(parents=True)
    (home / "lib").mkdir()
    command = home / "bin" / "java"
    lines = ["#!/bin/sh", "echo 'Picked up JAVA_TOOL_OPTIONS: -Dversion=9' >&2"]
    if says_home:
        lines.append(f"echo '    java.home = {home}' >&2")
    lines.append(f"echo 'openjdk version \"{version}\" 2025-04-15' >&2")
    command.write_text("\n".join(lines) + "\n")
    command.chmod(0o755)
    return home


@pytest.fixture
def jvms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with no Java at all; the directory is its /usr/lib/jvm."""
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
def test_every_way_of_writing_a_version_is_understood(tmp_path: Path, reported: str, major: int) -> None:
    assert java_version(fake_java(tmp_path / "home", reported) / "bin" / "java") == major


def test_a_machine_without_java_has_no_home(jvms: Path) -> None:
    assert find_java_home(jvms) is None


def test_java_home_is_honoured_first(jvms: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(jvms / "java-17", "17.0.1")
    wanted = fake_java(tmp_path / "mine", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(wanted))
    assert find_java_home(jvms) == str(wanted)


def test_an_old_java_home_gives_way_to_a_good_java_on_the_path(
    jvms: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = fake_java(tmp_path / "good", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "1.8.0_392")))
    monkeypatch.setenv("PATH", str(good / "bin"))
    assert find_java_home(jvms) == str(good)


def test_an_old_java_on_the_path_gives_way_to_an_installed_one(
    jvms: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "old", "11.0.2") / "bin"))
    good = fake_java(jvms / "java-17", "17.0.1")
    assert find_java_home(jvms) == str(good)


def test_of_several_installed_the_oldest_that_will_do_is_taken(jvms: Path) -> None:
    for version in ("25", "21.0.1", "17.0.9", "11.0.2"):
        fake_java(jvms / f"java-{version}", version)
    assert find_java_home(jvms) == str(jvms / "java-17.0.9")


def test_a_link_on_the_path_leads_to_the_home_it_points_into(
    jvms: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = fake_java(tmp_path / "elsewhere", "17.0.1")
    links = tmp_path / "usr" / "bin"
    links.mkdir(parents=True)
    (links / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", str(links))
    assert find_java_home(jvms) == str(home)


def test_a_version_managers_shim_is_asked_for_its_home(
    jvms: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = fake_java(tmp_path / "managed", "21.0.1", says_home=True)
    shims = tmp_path / "shims"
    shims.mkdir()
    (shims / "java").write_text(f'#!/bin/sh\nexec {home}/bin/java "$@"\n')
    (shims / "java").chmod(0o755)
    monkeypatch.setenv("PATH", str(shims))
    assert find_java_home(jvms) == str(home)


@pytest.mark.parametrize("content", ["", "#!/bin/sh\nexit 1\n", "#!/bin/sh\necho no version here\n", "\x7fELF garbage"])
def test_a_broken_java_is_passed_over(jvms: Path, content: str) -> None:
    broken = jvms / "broken"
    (broken / "bin").mkdir(parents=True)
    (broken / "bin" / "java").write_text(content)
    (broken / "bin" / "java").chmod(0o755)
    assert find_java_home(jvms) is None


def test_a_java_home_that_is_not_there_is_passed_over(jvms: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere/at/all")
    assert find_java_home(jvms) is None


def test_a_missing_java_is_told_in_one_sentence_that_says_how(jvms: Path) -> None:
    with pytest.raises(InputError, match=r"Java 17 or later .* `make setup`"):
        require_java()


def test_requiring_java_points_java_home_at_it_for_spark(
    jvms: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = fake_java(jvms / "java-17", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "1.8.0_392")))
    require_java()
    assert os.environ["JAVA_HOME"] == str(good)


def test_the_set_up_can_ask_before_anything_is_installed(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", "17.0.1")
    answer = subprocess.run(
        [sys.executable, "-I", "-S", java.__file__], env={"JAVA_HOME": str(home)}, capture_output=True, check=True
    )
    assert answer.stdout.decode().strip() == str(home)
