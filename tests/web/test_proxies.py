"""The nginx and Caddy configurations of docs/deploy.md, run as they are written there."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from tests.web.conftest import live_server
from tests.web.test_subscriptions import subscribe

DEPLOYMENT = Path(__file__).parents[2] / "docs" / "deploy.md"
START_S = 30.0
PATH = f"{os.environ['PATH']}:/usr/sbin:{Path(sys.executable).parent}"  # scripts/setup.sh puts programs next to Python


class Proxy(NamedTuple):
    """A running proxy."""

    connect: Callable[[], http.client.HTTPConnection]
    read_logs: Callable[[], str]


def configuration(language, replacements):
    """Return a configuration of the documentation with values for this machine; every replaced text must occur."""
    (text,) = re.findall(rf"^```{language}\n(.*?)^```", DEPLOYMENT.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    for old, new in replacements.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def require_programs(*names):
    for name in names:
        if shutil.which(name, path=PATH) is None:
            pytest.skip(f"{name} is not installed (scripts/setup.sh tests)")


@contextmanager
def running(command: list[str], folder: Path, port: int) -> Iterator[None]:
    """Run a proxy until the end of the block."""
    environment = {**os.environ, "PATH": PATH, "HOME": str(folder)}
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output)
    try:
        wait_for_port(process, port, folder / "output")
        yield
    finally:
        process.terminate()
        process.wait(30)


def wait_for_port(process, port, output):
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        assert process.poll() is None, output.read_text("utf-8")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail(output.read_text("utf-8"))


def read_logs_of(folder):
    return lambda: "".join(file.read_text("utf-8", "replace") for file in folder.iterdir() if "log" in file.name)


@contextmanager
def nginx(folder: Path, upstream: int) -> Iterator[Proxy]:
    require_programs("nginx", "openssl")
    key, certificate, port = folder / "key", folder / "certificate", free_port()
    subject = ["-subj", "/CN=localhost", "-days", "2", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(
        ["openssl", "req", "-x509", "-nodes", "-newkey", "rsa:2048", *subject], check=True, capture_output=True
    )
    site = configuration(
        "nginx",
        {
            "127.0.0.1:8080": f"127.0.0.1:{upstream}",
            "listen 443 ssl http2": f"listen 127.0.0.1:{port} ssl http2",
            "/etc/ssl/tidings.pem": str(certificate),
            "/etc/ssl/tidings.key": str(key),
            "/var/log/nginx/": f"{folder}/log-",
        },
    )
    temporary = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi"))
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(
        f"{user} pid {folder}/pid; daemon off; error_log {folder}/log-main crit; events {{}}\n"
        f"http {{ {temporary} uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;\n{site}\n}}"
    )
    trust = ssl.create_default_context(cafile=str(certificate))
    with running(["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")], folder, port):
        yield Proxy(
            lambda: http.client.HTTPSConnection("localhost", port, timeout=60, context=trust), read_logs_of(folder)
        )


@contextmanager
def caddy(folder: Path, upstream: int) -> Iterator[Proxy]:
    require_programs("caddy")
    port = free_port()
    site = configuration(
        "caddy",
        {
            "127.0.0.1:8080": f"127.0.0.1:{upstream}",
            "tidings.example.org {": f"http://localhost:{port} {{",
            "{\n\tservers {": "{\n\tadmin off\n\tservers {",
            "/var/log/caddy/tidings.log": f"{folder}/log-site",
            "\tlog {\n\t\tformat filter": f"\tlog {{\n\t\toutput file {folder}/log-main\n\t\tformat filter",
        },
    )
    (folder / "Caddyfile").write_text(site)
    with running(["caddy", "run", "--config", "Caddyfile", "--adapter", "caddyfile"], folder, port):
        yield Proxy(partial(http.client.HTTPConnection, "localhost", port, timeout=60), read_logs_of(folder))


@pytest.fixture(params=[nginx, caddy])
def proxy(request, tmp_path_factory, context):
    folder = tmp_path_factory.mktemp("proxy")
    with ExitStack() as stack:
        server = ExitStack()
        stack.enter_context(server)
        url = server.enter_context(live_server(context))
        yield stack.enter_context(request.param(folder, urlsplit(url).port)), server


def send(proxy, method, path, body=None, **headers):
    connection = proxy.connect()
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_a_documented_proxy_passes_requests_and_live_events_and_logs_no_secrets(proxy, ann, store_matches):
    proxy, server = proxy
    token = {"Authorization": ann.headers["Authorization"]}
    made = subscribe(ann)
    secret = urlsplit(made["addresses"]["rss"]).path.split("/")[2]

    assert send(proxy, "GET", "/")[0] == 200
    assert send(proxy, "GET", "/api/me", **token)[0] == 200
    assert send(proxy, "GET", "/api/me")[0] == 401
    assert send(proxy, "POST", "/api/posts", b'{"text":"' + b"a" * 1_000_000 + b'"}', **token)[0] == 202
    assert send(proxy, "POST", "/api/posts", b"a" * (9 << 20), **token)[0] == 413
    assert send(proxy, "GET", "/api/me", **{"X-Large": "a" * (64 << 10)})[0] in (400, 431)
    assert send(proxy, "GET", f"/read/{secret}/rss?a=b")[0] == 200

    live = proxy.connect()
    live.request("GET", f"/read/{secret}/live?last=1")
    events = live.getresponse()
    assert events.status == 200
    assert b"tidings" in events.readline()  # the stream has begun: every match from now on is sent
    store_matches(made["id"], ["a"], text=["storm ahead"])
    wait_for_line(events, b"storm ahead")  # the stream stays open, so a proxy that buffers would never send it
    live.close()

    server.close()
    assert send(proxy, "GET", f"/read/{secret}/rss")[0] == 502
    logs = proxy.read_logs()
    assert "/read/-" in logs
    assert secret not in logs
    assert token["Authorization"].split()[1] not in logs


def wait_for_line(events, part):
    for _ in range(100):
        if part in events.readline():
            return
    pytest.fail("the event did not arrive")
