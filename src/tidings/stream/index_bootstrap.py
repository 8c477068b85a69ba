"""The index a stream begins with: of which plan it is, and opened, or made from the store."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tidings.balance.spec import WantedPlan
from tidings.balance.word_registry import DEFAULT
from tidings.errors import IndexDamaged, InputError
from tidings.index.manifest import load_manifest, versions
from tidings.spark.execution_mode import fits, plan_record
from tidings.store import Store
from tidings.stream.index_updater import Follower
from tidings.stream.options import Say, StreamRequest

MATCHERS = 8  # fixed, so that a stream that is moved to another machine keeps its plan


@dataclass(frozen=True, slots=True)
class Following:
    """The follower, and the plan that is wanted; None where every worker holds the whole index."""

    follower: Follower
    wanted: WantedPlan | None

    @property
    def plan(self) -> str:
        return "replicated" if self.wanted is None else "partitioned"


def followed(request: StreamRequest, store: Store, say: Say) -> Following:
    """Says which choices are in vain; InputError names a file that is damaged and the way out."""
    folder = request.folder / "index"
    try:
        there = _matchers_there(folder)
        wanted = WantedPlan.checked(request.partitioner, request.matchers, request.placement, there or MATCHERS)
        if request.plan == "replicated" or (request.plan == "auto" and there is None):
            follower = Follower(store, folder)
            if request.plan == "replicated" or fits(follower.index):
                _tell_in_vain(request, say)
                return Following(follower, None)
            follower.close()
        return Following(Follower(store, folder, plan_record(wanted), wanted.learned), wanted)
    except IndexDamaged as error:
        raise InputError(
            f"{error.path}: {error.reason.split(';')[0]}; remove {folder} and run again: it is made anew from the "
            "subscriptions in the store."
        ) from error


def _tell_in_vain(request: StreamRequest, say: Say) -> None:
    """To somebody who chose how to share out an index that is not shared out."""
    chosen = {
        "--matchers": request.matchers is not None,
        "--partitioner": request.partitioner != DEFAULT,
        "--relearn": request.relearn.every_s is not None,
    }
    if names := " and ".join(name for name, is_chosen in chosen.items() if is_chosen):
        say(f"every worker holds the whole index: {names} will be of use with --plan partitioned")


def _matchers_there(folder: Path) -> int | None:
    """Over how many matchers the index that is there is shared out: `auto` keeps that. None where it is not."""
    found = versions(folder) if folder.is_dir() else []
    plan = load_manifest(folder, found[-1]).plan if found else None
    return None if plan is None else plan.matchers
