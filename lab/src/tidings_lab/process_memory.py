"""Memory and CPU time of a service by kind of process: the service, the stream's driver, its JVM and workers, others.

Private memory is the anonymous memory of a process, and its share of what it has in common with the process from which
it was forked (`Pss_Anon`). It excludes files that are mapped, like the index, and so it is what grows by a leak.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from tidings.testing.processes import find_role

ROLES = ("serve", "driver", "jvm", "workers", "crawler", "sender")
_GROUPS = {"worker": "workers", "daemon": "workers"}
_PRIVATE = re.compile(rb"^(?:Pss_Anon|SwapPss): +(\d+) kB", re.MULTILINE)


def measure_processes(pid: int) -> dict[str, Any]:
    """Return resident (`…_mb`) and private memory (`…_private_mb`) by role, and the CPU time of all processes.

    The process is the root of a tree; if it is not a command of Tidings, it counts as the driver.
    """
    import psutil

    sizes = (f"{role}{kind}_mb" for kind in ("", "_private") for role in ROLES)
    totals: dict[str, float] = {**dict.fromkeys(sizes, 0.0), "workers": 0, "cpu_s": 0.0}
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            with suppress(psutil.Error, OSError):
                parent = process.parent() if process.pid != pid else None
                role = find_role(process.cmdline(), parent.cmdline() if parent else ())
                if role is not None or process.pid == pid:
                    _add_process(totals, _GROUPS.get(role or "driver", role or "driver"), process)
    return {name: round(value, 1) for name, value in totals.items()}


def _add_process(totals: dict[str, float], role: str, process: Any) -> None:
    private_mb = _private_bytes(process.pid) / 1e6
    totals["cpu_s"] += sum(process.cpu_times()[:4])  # also of terminated children
    totals[f"{role}_mb"] += process.memory_info().rss / 1e6
    totals[f"{role}_private_mb"] += private_mb
    totals["workers"] += role == "workers"


def _private_bytes(pid: int) -> int:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_bytes()
    return 1024 * sum(int(size) for size in _PRIVATE.findall(rollup))
