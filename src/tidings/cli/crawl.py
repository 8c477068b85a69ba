"""`tidings crawl`: visit the feeds that are due until it is stopped; new articles go to the stream."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidings.cli.options.allow import AllowOption
from tidings.cli.options.common import JsonOption, MasterOption
from tidings.cli.options.config import ConfigOption
from tidings.cli.options.groups import expand_groups
from tidings.cli.options.master import check_master
from tidings.cli.options.state import DEFAULT_STATE, StateOption, WorkDirOption, locate_state
from tidings.cli.output import print_note, safe_json
from tidings.durations import parse_seconds
from tidings.errors import InputError
from tidings.extras import require_extra

if TYPE_CHECKING:
    from tidings.crawl.crawler import CrawlOptions
    from tidings.crawl.loop import CrawlStats

HELP = """Visit the feeds of the state when they are due, and hand new articles to the stream.

A feed that brings more articles is visited more often, but never more often than it or its server allows. Private
addresses (loopback, private networks, cloud metadata) are rejected unless --allow names them. Run it together with
`tidings run --posts INBOX`, or let `tidings serve` run both. Ctrl-C finishes the round and stops."""

EXAMPLES = """[bold]Examples[/]

tidings feeds add https://example.com/blog --state news

tidings crawl --state news

tidings crawl --state news --once --json

tidings crawl --config tidings.toml

tidings run --posts news/inbox --state news"""

WEBHOOK_BACKLOG_HELP = "Of the articles from before a feed was first read, webhooks send the newest N."
INBOX = "inbox"
InboxOption = Annotated[
    Path | None,
    typer.Option("--inbox", metavar="DIR", help="Directory for posts to match.", show_default="STATE/inbox"),
]


@dataclass(frozen=True, slots=True)
class VisitOptions:
    """How often and how politely feeds are visited."""

    PANEL = "Visits"

    at_least_every: Annotated[
        str, typer.Option(metavar="DURATION", help="Longest interval between visits to a feed.")
    ] = "24 h"
    at_most_every: Annotated[
        str, typer.Option(metavar="DURATION", help="Shortest interval between visits to a feed.")
    ] = "5 min"
    request_interval: Annotated[
        str, typer.Option(metavar="DURATION", help="Minimum interval between requests to a host.")
    ] = "1 s"
    requests_per_host: Annotated[
        int, typer.Option(metavar="N", min=1, max=100, help="Maximum simultaneous requests to a host.")
    ] = 2
    webhook_backlog: Annotated[int, typer.Option(metavar="N", min=0, help=WEBHOOK_BACKLOG_HELP)] = 0
    allow: AllowOption = None
    user_agent: Annotated[
        str | None, typer.Option(metavar="TEXT", help="User-Agent header.", show_default="name and version")
    ] = None

    def crawl_options(self) -> CrawlOptions:
        """Return the checked options of the crawler. Raises InputError."""
        from tidings.crawl.crawler import CrawlOptions
        from tidings.crawl.rate_limit import HostRateLimit
        from tidings.crawl.schedule import SchedulePolicy
        from tidings.net.allowlist import AllowedNetworks
        from tidings.net.ssrf_guard import USER_AGENT

        min_s = parse_seconds(self.at_most_every, "--at-most-every")
        max_s = parse_seconds(self.at_least_every, "--at-least-every")
        if min_s > max_s:
            raise InputError(
                f"--at-most-every {self.at_most_every}: must not be longer than --at-least-every {self.at_least_every}."
            )
        agent = USER_AGENT if self.user_agent is None else self.user_agent
        if not (agent and agent.isascii() and agent.isprintable()):
            raise InputError(f"--user-agent {agent!r}: must be printable ASCII.")
        interval_s = parse_seconds(self.request_interval, "--request-interval")
        return CrawlOptions(
            schedule=SchedulePolicy(min_interval_s=min_s, max_interval_s=max_s),
            rate_limit=HostRateLimit(max_concurrent=self.requests_per_host, min_interval_s=interval_s),
            allow=AllowedNetworks.parse(self.allow or ()),
            user_agent=agent,
            webhook_backlog=self.webhook_backlog,
        )


@expand_groups
def crawl(
    visits: VisitOptions,
    state: StateOption = DEFAULT_STATE,
    work_dir: WorkDirOption = None,
    inbox: InboxOption = None,
    once: Annotated[bool, typer.Option("--once", help="Visit the feeds that are due, then exit.")] = False,
    crawlers: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=1024, help="Number of crawlers.", show_default="one per core"),
    ] = None,
    latencies: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="CSV (site, host, ms) to visit feeds from the nearest TIDINGS_SITE.",
            show_default=False,
        ),
    ] = None,
    master: MasterOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    from tidings.crawl.latency import read_latencies

    require_extra("crawl")
    check_master(master)
    location = locate_state(state, work_dir)
    options = visits.crawl_options()
    near = None if latencies is None else read_latencies(latencies)
    location.protect()
    location.open_existing().close()
    from tidings.stream.crawl_app import CrawlJob, run_crawl  # loads Spark

    job = CrawlJob(
        location.store, inbox or location.work_dir / INBOX, options, crawlers, master, once, near, location.work_dir
    )
    stats = run_crawl(job)
    if as_json:
        # Not `asdict`: it breaks the Counter of outcomes.
        print(safe_json({field.name: getattr(stats, field.name) for field in fields(stats)}))
    else:
        print_note(_summarize(stats))


def _summarize(stats: CrawlStats) -> str:
    feeds = "1 feed" if stats.visits == 1 else f"{stats.visits:,} feeds"
    failed = f", {stats.steps['failed']:,} failed (example: {stats.error.rstrip('.')})" if stats.steps["failed"] else ""
    articles = f"{stats.articles:,} new articles, {stats.updates:,} updated"
    return f"crawler: {feeds} visited in {stats.seconds:.0f} s{failed}; {articles}."
