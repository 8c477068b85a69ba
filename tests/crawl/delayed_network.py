"""``unshare -rn python delayed_network.py``: measure the latency to a second network namespace with delayed packets.

Both namespaces have a TUN device; a thread carries packets between them, delayed by the address they go to. It needs
only TUN devices and namespaces of the kernel; if these are not available it exits with status 3.
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

from tidings.crawl.latency import connect_once, measure_connects

NEAR, PORT = "10.9.0.1", 8000
DELAYS_S = {"10.9.0.2": 0.02, "10.9.0.3": 0.08}
_TUNSETIFF, _TUN_WITHOUT_HEADERS = 0x400454CA, 0x1001
_NEW_NETWORK = 0x40000000


def device(*addresses: str) -> int:
    """Create a TUN device with these addresses in this namespace."""
    handle = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(handle, _TUNSETIFF, struct.pack("16sH22x", b"tidings0", _TUN_WITHOUT_HEADERS))
    for address in addresses:
        subprocess.run(["ip", "address", "add", f"{address}/24", "dev", "tidings0"], check=True)
    subprocess.run(["ip", "link", "set", "tidings0", "up"], check=True)
    return handle


def serve_far(control: socket.socket) -> None:
    """Answer connections in the other namespace until the socket is closed."""
    if ctypes.CDLL(None, use_errno=True).unshare(_NEW_NETWORK):
        raise OSError(ctypes.get_errno(), "no network namespace")
    handle = device(*DELAYS_S)
    with socket.create_server(("", PORT), backlog=50):
        socket.send_fds(control, [b"x"], [handle])
        control.recv(1)


def carry(near: int, far: int) -> None:
    """Carry packets both ways, delayed by their address."""
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
        serve_far(theirs)
        os._exit(0)
    theirs.close()
    near = device(NEAR)
    said, handles, _, _ = socket.recv_fds(ours, 1, 1)
    if not said:
        raise OSError("the other namespace could not be made")
    threading.Thread(target=carry, args=(near, handles[0]), daemon=True).start()
    found = asyncio.run(measure_connects("here", {host: (host, PORT) for host in DELAYS_S}, connect_once))
    for (_, host), ms in found.ms.items():
        print(host, ms)


if __name__ == "__main__":
    try:
        main()
    except (OSError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        sys.exit(3)
