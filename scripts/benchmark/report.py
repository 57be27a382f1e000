"""The results of a run as Markdown."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

from scripts.benchmark import mixed
from scripts.benchmark.cases import CASES, LARGE, LIMITS, OURS, SMALL, Action
from scripts.benchmark.contender import FOLDER
from scripts.benchmark.figures import show_digits, table
from scripts.benchmark.machine import PUBLISHED, find_published
from scripts.benchmark.pushes import WEBHOOK
from scripts.benchmark.worker_cases import DIFFERENCES, LOOP, LOOP_CONCURRENCY, SLEEPS_MS

Results = dict[str, Any]

AGAINST = ("our threads against it", "our asyncio against it")
VERDICTS = {True: "yes", False: "**no**", None: "not measured"}


def report(results: Results) -> str:
    """Return the tables of all measured parts."""
    clients = "throughput" in results
    sections = ["# Benchmark\n", _method(results)]
    if clients:
        sections += [
            "## Targets\n",
            table_of_targets(results),
            "## Messages a second: send\n",
            _throughput(results, "send"),
            "## Messages a second: receive and delete\n",
            _throughput(results, "receive"),
        ]
    sections += [
        "## Workers\n",
        _workers(results),
        "## Workers by the time of a handler\n",
        _handler_times(results),
        "## Differences between the workers\n",
        _differences(),
        "## Webhooks\n",
        _pushes(results),
    ]
    if clients:
        sections += ["## Wake-up\n", _wake_up(results), "## Mixed traffic\n"]
        sections += [mixed.report(results["mixed"]), "## Depth\n", _depth(results)]
    return "\n".join(sections)


def _method(results: Results) -> str:
    machine, method = results["machine"], results["method"]
    versions = ", ".join(f"{name} {number}" for name, number in results["versions"].items())
    quick = "**A quick run: too short for its figures to count.**\n" if results["quick"] else ""
    one = "one processor and " if machine["on_one_processor"] else ""
    kind = "" if "throughput" in results else "worker_"
    milliseconds = method[f"{kind}slice_seconds"] * 1000
    return (
        f"{quick}`{results['command']}` on {results['date']}: {machine['processors']} x "
        f"{machine['cpu']}, {machine['system']}, load {machine['load_at_start']} when it began.\n"
        f"{describe_resemblance(machine)}\n"
        f"{versions}.\n"
        f"On {one}one redis-server, over loopback, in turns: medians of "
        f"{method[f'{kind}rounds']} slices of about {milliseconds:g} ms in random order. "
        "± is half of the range of the middle half of the slices. "
        "Compare ratios only within one run.\n"
    )


def describe_resemblance(machine: dict[str, Any]) -> str:
    """Return a sentence that says which published machine a run resembles."""
    kib = machine["second_level_cache_kib"]
    name = find_published(kib)
    if name is None:
        return f"The second-level cache ({kib or 'unknown'} KiB) is that of no published run."
    return (
        f"The second-level cache ({kib} KiB a core) is that of the {name}: compare with its column."
    )


def published_figures(name: str) -> dict[str, str]:
    """Return what the published run of a machine reached, by case."""
    lines = (FOLDER / "measured" / PUBLISHED[name][0]).read_text().splitlines()
    begin = lines.index("## Targets") + len(("", "headings", "dashes", ""))
    rows = (line.strip("| ").split(" | ") for line in takewhile(bool, lines[begin:]))
    return {case: reached for case, _, reached, *_ in rows}


def table_of_targets(results: Results) -> str:
    """Return the targets of a run, beside what the published machines reached."""
    published = {name: published_figures(name) for name in PUBLISHED}
    return table(
        ["case", "target", "reached", "met", *published],
        [
            [
                line["case"],
                line["target"],
                "" if line["reached"] is None else f"{line['reached']:.2f}{line['unit']}",
                VERDICTS[line["met"]],
                *(figures.get(line["case"], "") for figures in published.values()),
            ]
            for line in results["targets"]
        ],
    )


def _throughput(results: Results, action: Action) -> str:
    results_by_case = {
        (each["contender"], each["body_bytes"]): each
        for each in results["throughput"]
        if each["action"] == action
    }
    rows = []
    for case in CASES:
        if case.action == action:
            row = [f"{case.label}{_footnote(action, case.label)}"]
            for size in (SMALL, LARGE):
                each = results_by_case[case.label, size]
                row += [
                    _rate(each["messages_per_second"]),
                    "" if case.label == OURS else f"{each['from_url_against_it']:.2f}x",
                    _cpu(each["client_cpu_us"], each["server_cpu_us"]),
                ]
            rows.append(row)
    headings = ["100 B", f"`{OURS}` against it", "CPU", "10 KB", f"`{OURS}` against it", "CPU"]
    notes = "CPU: µs a message, client / server.\n"
    if action == "receive":
        notes += "\\* receives only: redis-benchmark can't delete messages.\n"
    return table(["", *headings], rows) + "\n" + notes


def _footnote(action: Action, label: str) -> str:
    return " \\*" if action == "receive" and label in LIMITS else ""


def _rate(per_second: dict[str, Any]) -> str:
    low, high = per_second["middle_half"]
    percent = (high - low) / 2 / per_second["median"] * 100
    return f"{show_digits(per_second['median'])} ± {percent:.0f} %"


def _cpu(client: float | None, server: float) -> str:
    return f"{'' if client is None else f'{client:.1f}'} / {server:.1f}"


def _workers(results: Results) -> str:
    method = results["method"]
    rows = [
        [
            on_one["contender"],
            f"{on_one['at_a_time']}",
            *_beside_ours(on_one),
            _cpu(on_one["client_cpu_us"], on_one["server_cpu_us"]),
            *_beside_ours(on_all),
        ]
        for on_one, on_all in zip(results["workers"], results["workers_on_all"], strict=True)
    ]
    headings = ["at a time", "jobs a second", *AGAINST, "CPU", "on all processors", *AGAINST]
    return (
        table(["", *headings], rows)
        + "\nBodies are 100 B long, and the handler does nothing. The time runs from before the "
        "worker starts until the last job is acknowledged.\n"
        f"Medians of {method['worker_rounds']} slices of about "
        f"{method['worker_slice_seconds'] * 1000:g} ms. `{LOOP}` is a plain loop of "
        "receive_messages and delete_messages;\nits ratios are those of our workers with "
        f"{LOOP_CONCURRENCY} jobs at a time. Against other workers, the targets use the lower of "
        "the two ratios.\n"
        "CPU: µs a job, client / server.\n"
    )


def _beside_ours(each: dict[str, Any]) -> list[str]:
    against = (each["threads_against_it"], each["asyncio_against_it"])
    return [_rate(each["jobs_per_second"]), *(f"{ratio:.2f}x" for ratio in against)]


def _handler_times(results: Results) -> str:
    method = results["method"]
    by_worker: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for each in results["handler_times"]:
        by_worker.setdefault((each["contender"], each["at_a_time"]), []).append(each)
    rows = [
        [
            label,
            f"{at_a_time}",
            *(_rate(each["jobs_per_second"]) for each in by_sleep),
            *(
                " / ".join(f"{each[f'{kind}_against_it']:.2f}x" for each in by_sleep)
                for kind in ("threads", "asyncio")
            ),
        ]
        for (label, at_a_time), by_sleep in by_worker.items()
    ]
    sleeps = [f"{sleep_ms} ms" for sleep_ms in SLEEPS_MS]
    headings = [*sleeps, *(f"{heading}, {' / '.join(sleeps)}" for heading in AGAINST)]
    return (
        table(["", "at a time", *headings], rows)
        + "\nJobs a second of workers whose handlers sleep for 0, 5 or 50 ms, on all processors.\n"
        f"Medians of {method['handler_time_rounds']} slices of about "
        f"{method['handler_time_slice_seconds']:g} s.\n"
    )


def _differences() -> str:
    return (
        table(
            ["", "handlers run in", "jobs that a call receives", "jobs that a call acknowledges"],
            [[each.label, each.handlers, each.receives, each.acknowledges] for each in DIFFERENCES],
        )
        + "\nThese are the same for all: redis-server stores nothing on disk. A job stays in Redis "
        "until its handler has returned, and leaves no result.\n"
    )


def _pushes(results: Results) -> str:
    pushes = results["pushes"]
    rows = [
        [name, _rate(rate), f"{pushes['rates'][WEBHOOK]['median'] / rate['median']:.2f}x"]
        for name, rate in pushes["rates"].items()
    ]
    return (
        table(["", "pushes a second", f"`{WEBHOOK}` against it"], rows)
        + f"\nPOSTs of 100 B to a local server, {pushes['at_a_time']} at a time, on all "
        "processors. The webhook\nalso receives and deletes each message; the plain loop sends the "
        "same signed requests.\nThe median of the rounds' ratios is "
        f"{pushes['ratio']:.2f}, that of the processor times {pushes['cpu_ratio']:.2f}.\n"
    )


def _wake_up(results: Results) -> str:
    rows = []
    for label, each in results["wake_up"].items():
        receives = each["receives_per_message"]
        rows.append(
            [
                label,
                *(f"{each[percent]:.2f}" for percent in ("p50_ms", "p90_ms", "p99_ms")),
                f"{each['node_call_p50_ms']:.2f}",
                "" if receives is None else f"{receives:.2f}",
            ]
        )
    count = next(iter(results["wake_up"].values()))["messages"]
    return (
        table(
            ["", "p50 ms", "p90 ms", "p99 ms", "Node's own call, p50 ms", "receives a message"],
            rows,
        )
        + "\nThe time from just before an unmodified Node client sends until the receiver's call "
        f"returns, by the machine's monotonic clock.\n{count} messages of each kind, 10 to 40 ms "
        "apart, realtime off. This part runs on all processors.\n"
    )


def _depth(results: Results) -> str:
    calls: dict[int, dict[str, str]] = {}
    for each in results["depth"]["calls"]:
        us = each["us"]
        calls.setdefault(each["depth"], {})[each["call"]] = f"{us['median']:.1f}"
    memory = {
        (each["depth"], each["body_bytes"]): each["bytes_per_message"]
        for each in results["depth"]["memory"]
    }
    rows = [
        [f"{depth:,}", *(by_call[call] for call in ("send", "receive", "delete")),
         f"{memory[depth, SMALL]:,.0f}"]
        for depth, by_call in calls.items()
    ]  # fmt: skip
    large = "".join(
        f"With bodies of 10 KB a message takes {message_bytes:,.0f} bytes, if {depth:,} wait.\n"
        for (depth, size), message_bytes in memory.items()
        if size == LARGE
    )
    return (
        table(["waiting", "send µs", "receive µs", "delete µs", "bytes a message"], rows)
        + f"\nOne call at a time, 100 B. {large}"
    )
