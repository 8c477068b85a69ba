"""`tidings plan learn`, `show` and `relearn`: which matcher is responsible for which words, and how good that is."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from tidings.cli.console import screen
from tidings.cli.options.state import DEFAULT_STATE, StateOption, WorkOption, state_at
from tidings.cli.plan_space import Drawn, about, draw_map, figures, learn_space_plan
from tidings.cli.progress import Progress
from tidings.errors import InputError, OutputError

if TYPE_CHECKING:
    from tidings.balance.corpus import Corpus
    from tidings.plan.space import SpacePlan
    from tidings.plan.words import LearnedPlan
    from tidings.text.vocabulary import Vocabulary

_BARS = 32  # matchers shown on a screen

app = typer.Typer(help="Learn which matcher is responsible for which words, and look at such plans.")

_POSTS = "a Parquet, JSON Lines or CSV file, a directory or a glob"
LEARN_HELP = (
    "Learn a plan from a sample of POSTS: which of N matchers is responsible for which words, or places and words.\n\n"
    "A post is sent to the matchers of its words, so a good plan keeps together what is said together (few matchers a "
    "post) and shares the load evenly. Words too frequent for one matcher are split over several. Use the plan with "
    "[bold]tidings match --plan partitioned --partitioner PLAN[/]."
)
LEARN_EXAMPLES = """[bold]Examples[/]

tidings plan learn posts/ --matchers 16 --out words.plan

tidings plan learn posts.parquet --algorithm gfcl --matchers 64 --subscriptions subs.txt --out words.plan

tidings plan learn posts.parquet --algorithm hybrid --subscriptions subs.jsonl --out places.plan"""
SHOW_HELP = (
    "Show a plan; with --posts, how it would share their load out.\n\n"
    "spread: matchers a post goes to. imbalance: the most loaded matcher against the average. cov, gini: how uneven "
    "the loads are. throughput: posts all matchers take together while one could take a single one."
)
SHOW_EXAMPLES = """[bold]Examples[/]

tidings plan show words.plan

tidings plan show words.plan --posts posts/ --subscriptions subs.txt --json

tidings plan show places.plan --posts posts/ --subscriptions subs.jsonl --map places.svg"""

RELEARN_HELP = (
    "Have a stream learn its plan anew, from the posts of late.\n\n"
    "It goes on meanwhile, and switches between two batches: no match is lost or repeated. "
    "[bold]tidings run --relearn[/] does it by itself every so often."
)
RELEARN_EXAMPLES = """[bold]Examples[/]

tidings plan relearn --state news"""

SubscriptionsOption = Annotated[
    Path | None,
    typer.Option("--subscriptions", "-s", metavar="SUBS", help="Let only words count that somebody subscribed to."),
]
SampleOption = Annotated[int, typer.Option(min=1, metavar="N", help="The most posts to look at, drawn at random.")]


@app.command("learn", help=LEARN_HELP, epilog=LEARN_EXAMPLES)
def learn(
    posts: Annotated[str, typer.Argument(metavar="POSTS", help=f"What to learn from: {_POSTS}.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="PLAN", help="The file to write.", show_default=False)],
    algorithm: Annotated[
        str,
        typer.Option(
            help="Words: salb+, salb, gc, gfc, gfcl or gnfcl. Places and words: hybrid, kdt, grid, kdtree, rtree, "
            "frequency, hypergraph or metric."
        ),
    ] = "salb+",
    matchers: Annotated[int, typer.Option(metavar="N", help="How many matchers there are: 1 to 1,024.")] = 16,
    subscriptions: SubscriptionsOption = None,
    sample: SampleOption = 1_000_000,
    split: Annotated[bool, typer.Option("--split/--no-split", help="Split words too frequent for one matcher.")] = True,
    seed: Annotated[int, typer.Option(help="What the sample is drawn with.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace PLAN if it exists.")] = False,
    json_summary: Annotated[bool, typer.Option("--json", help="Print the summary as one JSON object.")] = False,
) -> None:
    from tidings.balance.spatial_registry import SPACE_PARTITIONERS
    from tidings.balance.word_registry import LEARNED, fit
    from tidings.plan.words import LearnedPlan, checked_matchers

    known = (*LEARNED, *SPACE_PARTITIONERS)
    if algorithm not in known:
        raise InputError(f"There is nothing to learn for {algorithm!r}; choose one of: {', '.join(known)}.")
    checked_matchers(matchers)
    _check_out(out, overwrite)
    with Progress(quiet=json_summary) as progress:
        if algorithm in SPACE_PARTITIONERS:
            drawn = Drawn(posts, subscriptions, sample, seed)
            space, told = learn_space_plan(algorithm, matchers, drawn, progress)
            _save(space, out)
            _print({**told, "out": str(out)}, json_summary)
            return
        corpus = _corpus(posts, subscriptions, sample, seed, progress)
        progress.note(f"learning from {corpus.size:,} posts and {len(corpus.terms):,} words", None)
        start = time.perf_counter()
        plan = fit(algorithm, corpus, matchers, split, seed)
        assert isinstance(plan, LearnedPlan)
        seconds = time.perf_counter() - start
        _save(plan, out)
        told = {**_about(plan), **_figures(plan, corpus), "seconds": round(seconds, 3), "out": str(out)}
    _print(told, json_summary)


@app.command("show", help=SHOW_HELP, epilog=SHOW_EXAMPLES)
def show(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="A file made by `plan learn`.", show_default=False)],
    posts: Annotated[
        str | None, typer.Option("--posts", metavar="POSTS", help=f"Measure with these: {_POSTS}.")
    ] = None,
    subscriptions: SubscriptionsOption = None,
    sample: SampleOption = 1_000_000,
    seed: Annotated[int, typer.Option(help="What the sample is drawn with.")] = 0,
    picture: Annotated[
        Path | None,
        typer.Option("--map", metavar="FILE.svg", help="Draw the cells of a plan of places; with --posts their loads."),
    ] = None,
    json_summary: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    from tidings.plan.load import load_any_plan
    from tidings.plan.words import LearnedPlan

    loaded = load_any_plan(plan)
    if posts is None and subscriptions is not None:
        raise InputError("--subscriptions says which words of --posts count; give --posts too.")
    if not isinstance(loaded, LearnedPlan):
        _show_space(loaded, None if posts is None else Drawn(posts, subscriptions, sample, seed), picture, json_summary)
        return
    if picture is not None:
        raise InputError(f"{plan}: this is a plan of words, which has no map; leave --map out.")
    told = _about(loaded)
    if posts is not None:
        with Progress(quiet=json_summary) as progress:
            told |= _figures(loaded, _corpus(posts, subscriptions, sample, seed, progress))
    _print(told, json_summary)


def _show_space(plan: SpacePlan, drawn: Drawn | None, picture: Path | None, as_json: bool) -> None:
    told = about(plan)
    with Progress(quiet=as_json) as progress:
        workload = None if drawn is None else drawn.workload(progress)
    if workload is not None:
        told |= figures(plan, workload)
    if picture is not None:
        draw_map(plan, workload, picture)
        told["map"] = str(picture)
    _print(told, as_json)


@app.command("relearn", help=RELEARN_HELP, epilog=RELEARN_EXAMPLES)
def relearn(state: StateOption = DEFAULT_STATE, work: WorkOption = None) -> None:
    from tidings.stream.metrics.health import Condition, health
    from tidings.stream.metrics.snapshot import load_figures

    place = state_at(state, work)
    figures = load_figures(place.folder)
    if figures is not None and figures.plan == "replicated":
        raise InputError(
            f"{place.shown}: every worker of this stream holds the whole index, so there is no plan; run it with "
            "--plan partitioned to have one."
        )
    with place.open() as store:
        store.ask_to_relearn()
    is_running = health(figures, time.time()).condition in (Condition.running, Condition.stale)
    when = "beside its work, and switches to it between two batches" if is_running else "when it runs next"
    print(f"asked for: the stream learns a new plan {when}; `tidings status{place.option}` tells its version.")


def _check_out(out: Path, overwrite: bool) -> None:
    if out.is_dir() or not out.parent.is_dir() or not os.access(out.parent, os.W_OK):
        raise InputError(f"{out}: a file cannot be written there; choose another --out.")
    if out.exists() and not overwrite:
        raise InputError(f"{out}: this exists already; choose another --out or add --overwrite.")


def _save(plan: LearnedPlan | SpacePlan, out: Path) -> None:
    """Write the plan whole or not at all."""
    from tidings.plan.space import SpacePlan, save_space_plan
    from tidings.plan.words import save_plan

    partial = out.with_name(f".{out.name}.partial-{os.getpid()}")
    try:
        save_space_plan(plan, partial) if isinstance(plan, SpacePlan) else save_plan(plan, partial)
        partial.replace(out)
    except OSError as error:
        raise OutputError(f"{out}: it could not be written ({error.strerror or error}).") from error
    finally:
        partial.unlink(missing_ok=True)


def _corpus(posts: str, subscriptions: Path | None, sample: int, seed: int, progress: Progress) -> Corpus:
    """The posts as sets of words; with subscriptions, of subscribed ones."""
    from tidings.ingest.post_files import find_posts

    found = find_posts(posts)
    subscribed = None if subscriptions is None else _subscribed(subscriptions)
    progress.note("starting Spark", None)
    from tidings.balance.corpus import Corpus
    from tidings.batch.match_files import sample_files

    texts, _ = sample_files(found, sample, seed, Path(posts), progress.note)
    progress.note(f"cleaning {len(texts):,} posts", None)
    corpus = Corpus.of_texts(texts, subscribed)
    if not corpus.terms:
        raise InputError(f"{posts}: no post says a word that counts; there is nothing to learn or to measure.")
    return corpus


def _subscribed(path: Path) -> Vocabulary:
    from tidings.index.compile import GrowingVocabulary, compile_subscriptions
    from tidings.ingest.subscription_files import read_subscriptions
    from tidings.text.vocabulary import Vocabulary

    if not path.exists():
        raise InputError(f"{path}: there is no such file.")
    vocabulary = GrowingVocabulary()
    compile_subscriptions(read_subscriptions(path).table, vocabulary)
    return Vocabulary.build(vocabulary.added.terms())


def _about(plan: LearnedPlan) -> dict[str, Any]:
    return {
        "algorithm": plan.algorithm,
        "matchers": plan.matchers,
        "words": len(plan.words),
        "split_words": int((plan.versions.counts > 1).sum()),
        "learned_from": plan.posts,
    }


def _figures(plan: LearnedPlan, corpus: Corpus) -> dict[str, Any]:
    from tidings.balance.word_plan_metrics import measure

    found = measure(corpus, plan.versions_of(corpus.terms), plan.matchers)
    rounded = {name: round(getattr(found, name), 4) for name in ("spread", "imbalance", "cov", "gini", "throughput")}
    return {"posts": found.posts, **rounded, "loads": list(found.loads)}


def _print(told: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(told))
        return
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in told.items():
        if name not in ("loads", "held"):
            table.add_row(name.replace("_", " "), f"{value:,}" if isinstance(value, int | float) else str(value))
    screen().print(table)
    if "loads" in told:
        _print_loads(told["loads"])


def _print_loads(loads: list[int]) -> None:
    """A bar for each matcher, the most loaded first; of very many only the ends."""
    ranked = sorted(enumerate(loads), key=lambda one: -one[1])
    shown = ranked if len(ranked) <= _BARS else [*ranked[: _BARS // 2], *ranked[-_BARS // 2 :]]
    longest = max(1, ranked[0][1])
    for place, (matcher, load) in enumerate(shown):
        if len(shown) < len(ranked) and place == _BARS // 2:
            screen().print(f"  … {len(ranked) - len(shown)} matchers between")
        screen().print(f"  {matcher:>4} {'█' * max(1, round(40 * load / longest)) if load else ''} {load:,}")
