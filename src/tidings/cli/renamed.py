"""Accept the old names of commands and options: a table of renames, applied to the command line before it is parsed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

# Every command that keeps state. `--work` is not renamed for other commands: there it may be part of a query.
_STATE_COMMANDS = (
    *("run", "crawl", "serve", "subscribe", "unsubscribe", "subscriptions", "matches", "status", "trends", "related"),
    *("plan refresh", "webhooks", "webhooks add", "webhooks list", "webhooks remove", "webhooks test"),
    *("feeds add", "feeds list", "feeds remove", "feeds import", "feeds export", "feeds measure"),
    *("owners add", "owners token", "owners quotas", "owners list", "owners revoke", "owners remove"),
)
_CORRELATE_COMMANDS = ("run", "correlate")


@dataclass(frozen=True, slots=True)
class RenamedOption:
    """An option that has a new name; `values` maps those of its values that were renamed too."""

    commands: tuple[str, ...]
    old: str
    new: str
    values: Mapping[str, str] = field(default_factory=dict)


COMMANDS = {"hooks": "webhooks", "owner": "owners", "plan relearn": "plan refresh"}
OPTIONS = (
    RenamedOption(("run",), "--pin-anew", "--repin-lost-versions"),
    RenamedOption(("run",), "--processed", "--clean-source", {"keep": "off"}),
    RenamedOption(("run",), "--latency", "--max-latency"),
    RenamedOption(("run",), "--relearn", "--refresh-plan-every"),
    RenamedOption(("run",), "--relearn-factor", "--refresh-plan-factor"),
    RenamedOption(("run",), "--adjust-factor", "--rebalance-factor"),
    RenamedOption(("run",), "--deliver", "--sink"),
    RenamedOption(_CORRELATE_COMMANDS, "--sn", "--min-sightings"),
    RenamedOption(_CORRELATE_COMMANDS, "--z", "--check-every"),
    RenamedOption(_CORRELATE_COMMANDS, "--posts-a-partition", "--posts-per-partition"),
    RenamedOption(("crawl",), "--at-once", "--requests-per-host"),
    RenamedOption(("crawl",), "--between", "--request-interval"),
    RenamedOption(("serve",), "--hooks", "--webhooks"),
    RenamedOption(("serve",), "--no-hooks", "--no-webhooks"),
    RenamedOption(("owners add", "owners quotas"), "--posts-a-day", "--posts-per-day"),
    RenamedOption(_STATE_COMMANDS, "--work", "--work-dir"),
)


def apply_renames(arguments: Sequence[str], warn: Callable[[str], None]) -> list[str]:
    """Return the command line with new names; `warn` gets one sentence for each old name."""
    renamed = list(arguments)
    path = _command_path(renamed)
    for old, new in COMMANDS.items():
        words = old.split()
        if [renamed[position] for position in path[: len(words)]] == words:
            for position, word in zip(path, new.split(), strict=False):
                renamed[position] = word
            warn(_deprecation(old, new))
    return list(_rename_options(renamed, " ".join(renamed[position] for position in path), warn))


def _command_path(arguments: Sequence[str]) -> list[int]:
    """Return the positions of the command and of its subcommand, if it has any."""
    groups = {name.partition(" ")[0] for option in OPTIONS for name in option.commands if " " in name}
    groups |= {name.partition(" ")[0] for name in COMMANDS} | set(COMMANDS.values())
    path: list[int] = []
    for position, argument in enumerate(arguments):
        if argument == "--" or len(path) == 2 or (path and arguments[path[0]] not in groups):
            break
        if not argument.startswith("-"):
            path.append(position)
        elif path:
            break  # an option of the group itself; its subcommand, if any, takes none of the renamed options
    return path


def _rename_options(arguments: Sequence[str], command: str, warn: Callable[[str], None]) -> Iterator[str]:
    options = {option.old: option for option in OPTIONS if command in option.commands}
    values: Mapping[str, str] = {}
    warned: set[str] = set()
    for position, argument in enumerate(arguments):
        if argument == "--":
            yield from arguments[position:]
            return
        name, equals, value = argument.partition("=")
        option = options.get(name)
        if option is None:
            yield values.get(argument, argument)
            values = {}
            continue
        if name not in warned:
            warn(_deprecation(option.old, option.new))
            warned.add(name)
        yield f"{option.new}={option.values.get(value, value)}" if equals else option.new
        values = {} if equals else option.values


def _deprecation(old: str, new: str) -> str:
    return f"{old} is deprecated and will be removed in 1.0; use {new}"
