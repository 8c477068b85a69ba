"""Open or build the index that a stream starts with, in the right execution mode."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from tidings.balance.spec import PlanSpec
from tidings.balance.word_registry import DEFAULT_PARTITIONER
from tidings.errors import IndexDamaged, InputError
from tidings.index.gc import delete_outdated
from tidings.index.manifest import list_versions, load_manifest
from tidings.log import Event
from tidings.spark.execution_mode import fits_in_memory, make_plan_record
from tidings.store import Store
from tidings.stream.index_updater import IndexUpdater
from tidings.stream.options import StreamOptions

LOG = logging.getLogger("tidings.stream")
DEFAULT_MATCHERS = 8  # a constant, so that a stream keeps its plan on a machine with other cores


def open_or_build_index(options: StreamOptions, store: Store) -> tuple[IndexUpdater, PlanSpec | None]:
    """Return the index and its plan specification, None if replicated. Warns about options that have no effect.

    Raises InputError with a remedy if the index is damaged.
    """
    folder, mode = options.work_dir / "index", options.execution_mode
    try:
        if delete_outdated(folder):
            LOG.info(Event("index has an older format, building it again", folder=folder))
        existing = _existing_matchers(folder)
        spec = _parse_spec(options, store, folder, existing)
        if mode == "replicated" or (mode == "auto" and existing is None):
            updater = IndexUpdater(store, folder)
            if mode == "replicated" or fits_in_memory(updater.index):
                _warn_ignored_options(options)
                return updater, None
            updater.close()
        return IndexUpdater(store, folder, make_plan_record(spec), spec.plan), spec
    except IndexDamaged as error:
        raise InputError(
            f"{error.path}: {error.reason.partition('. ')[0]}. Remove {folder} and run again: it is built again from "
            "the subscriptions in the store."
        ) from error


def _parse_spec(options: StreamOptions, store: Store, folder: Path, existing: int | None) -> PlanSpec:
    """Return the specification. If only the number of matchers differs from that of the index, request to resize it."""
    wanted = store.plan_refresh.wanted_matchers()
    spec = PlanSpec.parse(
        options.partitioner, options.matchers, options.placement, existing or wanted or DEFAULT_MATCHERS
    )
    if existing is None or existing == spec.matchers or options.matchers is None or spec.plan is not None:
        return spec
    plan, same_size = load_manifest(folder, list_versions(folder)[-1]).plan, replace(spec, matchers=existing)
    if plan is None or not plan.is_compatible_with(make_plan_record(same_size)):
        return spec
    store.plan_refresh.request_matchers(spec.matchers)
    return same_size


def _warn_ignored_options(options: StreamOptions) -> None:
    """Warn when partitioning options are set but the index is replicated."""
    is_set = {
        "--matchers": options.matchers is not None,
        "--partitioner": options.partitioner != DEFAULT_PARTITIONER,
        "--refresh-plan-every": options.refresh_policy.interval_s is not None,
    }
    if names := " ".join(name for name, value in is_set.items() if value):
        LOG.warning(Event("options have no effect", options=names, reason="the index is replicated"))


def _existing_matchers(folder: Path) -> int | None:
    """Return the number of matchers of the existing index, which `auto` keeps; None if it is not partitioned."""
    versions = list_versions(folder) if folder.is_dir() else []
    plan = load_manifest(folder, versions[-1]).plan if versions else None
    return None if plan is None else plan.matchers
