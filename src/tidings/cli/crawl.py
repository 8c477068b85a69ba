"""`tidings crawl`: visit the feeds that are due, for as long as you let it; new articles go to the stream."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tidings.cli.duration import seconds
from tidings.cli.options.allow import AllowOption
from tidings.cli.options.master import check_master
from tidings.cli.options.state import DEFAULT_STATE, StateOption, WorkOption, state_at
from tidings.cli.output import safe_json, say
from tidings.errors import InputError

HELP = """Crawl the feeds of the state: ask each when it is due, keep only what is new, hand it to the stream.

A feed is asked the more often the more articles it brings, and never more often than it or its server allows. Addresses
that lead inside (loopback, private networks, metadata of clouds) are refused unless --allow names them. Run it beside
`tidings run --posts INBOX`, or let `tidings serve` run both. Ctrl-C finishes the round and stops."""

EXAMPLES = """Examples:

tidings feeds add https://example.com/blog --state news

tidings crawl --state news

tidings crawl --state news --once --json

tidings run --posts news/inbox --state news"""

INBOX = "inbox"
InboxOption = Annotated[
    Path | None,
    typer.Option("--inbox", metavar="DIR", help="Where new articles wait for the stream.", show_default="STATE/inbox"),
]


def crawl(
    state: StateOption = DEFAULT_STATE,
    work: WorkOption = None,
    inbox: InboxOption = None,
    once: Annotated[bool, typer.Option("--once", help="Visit what is due now, then end.")] = False,
    at_least_every: Annotated[
        str, typer.Option("--at-least-every", metavar="TIME", help="Ask even the quietest feed so often.")
    ] = "24 h",
    at_most_every: Annotated[
        str, typer.Option("--at-most-every", metavar="TIME", help="Ask even the busiest feed no more often.")
    ] = "5 min",
    between: Annotated[
        str, typer.Option("--between", metavar="TIME", help="Leave a host so much time between two requests.")
    ] = "1 s",
    at_once: Annotated[int, typer.Option("--at-once", min=1, max=100, help="Requests to one host at once.")] = 2,
    allow: AllowOption = None,
    user_agent: Annotated[
        str | None, typer.Option("--user-agent", metavar="TEXT", help="How to introduce ourselves to servers.")
    ] = None,
    crawlers: Annotated[
        int | None,
        typer.Option(min=1, max=1024, metavar="N", help="Share a round out over so many.", show_default="all cores"),
    ] = None,
    latencies: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Round-trip times from sites to hosts (CSV: site, host, ms), to visit feeds from near. An executor's "
            "site is TIDINGS_SITE in its environment.",
            show_default=False,
        ),
    ] = None,
    master: Annotated[str | None, typer.Option(metavar="URL", help="The Spark master; default: this machine.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")] = False,
) -> None:
    """Check, then crawl."""
    from tidings.crawl.crawler import Manners
    from tidings.crawl.latency import read_latencies
    from tidings.crawl.rate_limit import Politeness
    from tidings.crawl.schedule import Pace
    from tidings.net.allowlist import Allowed
    from tidings.net.ssrf_guard import USER_AGENT

    check_master(master)
    place = state_at(state, work)
    least_s, most_s = seconds(at_most_every, "--at-most-every"), seconds(at_least_every, "--at-least-every")
    if least_s > most_s:
        raise InputError(f"--at-most-every {at_most_every} is longer than --at-least-every {at_least_every}.")
    if user_agent is not None and (not user_agent.isascii() or not user_agent.isprintable() or not user_agent):
        raise InputError("--user-agent: servers understand printable ASCII only; write it in that.")
    manners = Manners(
        pace=Pace(least_s=least_s, most_s=most_s),
        politeness=Politeness(at_once=at_once, between_s=seconds(between, "--between")),
        allow=Allowed.parse(allow or ()),
        user_agent=user_agent or USER_AGENT,
    )
    near = None if latencies is None else read_latencies(latencies)
    place.open().close()
    from tidings.stream.crawl_app import CrawlRequest, run_crawl  # here: it brings Spark

    request = CrawlRequest(place.where, inbox or place.folder / INBOX, manners, crawlers, master, once, near)
    tally = run_crawl(request, lambda line: None if as_json else say(line))
    if as_json:
        print(safe_json(asdict(tally)))
    else:
        say(f"stopped: {tally.visits:,} visits, {tally.articles:,} new articles, {tally.updates:,} updated.")
