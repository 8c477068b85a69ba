"""``unshare -rn python delayed_network.py``: a second network namespace, so many milliseconds away, and what it takes.

Both have a TUN device; a thread carries packets from one to the other, each held back as long as its address says. It
needs no more of the kernel than TUN devices and namespaces; where these cannot be made it ends with status 3.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import heapq
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time

from tidings.crawl.latency import measure_connects, open_and_close

NEAR, PORT = "10.9.0.1", 8000
DELAYS_S = {"10.9.0.2": 0.02, "10.9.0.3": 0.08}
_TUNSETIFF, _TUN_WITHOUT_HEADERS = 0x400454CA, 0x1001
_NEW_NETWORK = 0x40000000


def device(*addresses: str) -> int:
    """A TUN device of this namespace with these addresses."""
    handle = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(handle, _TUNSETIFF, struct.pack("16sH22x", b"tidings0", _TUN_WITHOUT_HEADERS))
    for address in addresses:
        subprocess.run(["ip", "address", "add", f"{address}/24", "dev", "tidings0"], check=True)
    subprocess.run(["ip", "link", "set", "tidings0", "up"], check=True)
    return handle


def far_away(told: socket.socket) -> None:
    """The other namespace: answers connections until its end is closed."""
    if ctypes.CDLL(None, use_errno=True).unshare(_NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "no network namespace")
    handle = device(*DELAYS_S)
    with socket.create_server(("", PORT), backlog=50):
        socket.send_fds(told, [b"x"], [handle])
        told.recv(1)


def carry(near: int, far: int) -> None:
    """Packets to and fro, those to far addresses as late as these are far."""
    waiting: list[tuple[float, int, int, bytes]] = []
    for number in range(sys.maxsize):
        wait_s = max(0.0, waiting[0][0] - time.monotonic()) if waiting else 1.0
        for handle in select.select([near, far], [], [], wait_s)[0]:
            packet = os.read(handle, 65_536)
            late_s = DELAYS_S.get(socket.inet_ntoa(packet[16:20]), 0.0) if packet[0] >> 4 == 4 else 0.0
            heapq.heappush(waiting, (time.monotonic() + late_s, 2 * number + (handle == far), handle, packet))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, handle, packet = heapq.heappop(waiting)
            os.write(far if handle == near else near, packet)


def main() -> None:
    ours, theirs = socket.socketpair()
    if not os.fork():
        ours.close()
        far_away(theirs)
        os._exit(0)
    theirs.close()
    near = device(NEAR)
    said, handles, _, _ = socket.recv_fds(ours, 1, 1)
    if not said:
        raise OSError("the other namespace could not be made")
    threading.Thread(target=carry, args=(near, handles[0]), daemon=True).start()
    found = asyncio.run(measure_connects("here", {host: (host, PORT) for host in DELAYS_S}, open_and_close))
    for (_, host), ms in found.ms.items():
        print(host, ms)


if __name__ == "__main__":
    try:
        main()
    except (OSError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        sys.exit(3)
