"""
``rsmq-pipeline``: the jobs as commands.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from redis.exceptions import RedisError

from rsmq.errors import RSMQError
from rsmq.spark import pipelines
from rsmq.spark.pipelines.arguments import parser
from rsmq.spark.pipelines.progress import Tell
from rsmq.spark.pipelines.queues import Queues
from rsmq.spark.pipelines.telling import Teller, cause_of
from rsmq.spark.pipelines.transform import function_of
from rsmq.wire.keys import DEFAULT_NS

Job = Callable[[SparkSession, Tell], Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 if it did what it should, 1 if not, 2 if it could not begin."""
    args = parser().parse_args(arguments)
    teller = Teller(as_json=args.json)
    try:
        return run(args, teller)
    except KeyboardInterrupt:
        return 130
    except RSMQError as error:
        teller.failed(str(error), error.hint)
        return 2
    except RedisError as error:
        teller.failed(f"Redis: {error}", None)
        return 2
    except PySparkException as error:
        teller.failed(cause_of(str(error)), None)
        return 1


def run(args: argparse.Namespace, teller: Teller) -> int:
    """Run a command; 0 if it did what it should, 1 if not. What goes wrong is raised."""
    spark = None
    try:
        # What is wrong with arguments is said before Spark takes its time to start.
        job = _JOBS[args.command](args)
        spark = pipelines.session(f"rsmq-pipeline {args.command}", args.master)
        result = job(spark, teller.tell)
    finally:
        if spark is not None:
            spark.stop()
    teller.done(result)
    return 0 if getattr(result, "verified", True) else 1


def _place(args: argparse.Namespace, prefix: str = "", like: Queues | None = None) -> Queues:
    given = {
        name: getattr(args, f"{prefix}{name}")
        for name in ("url", "ns", "password_env", "password_file")
    }
    if like is not None and given["url"] is None:
        place = dataclasses.replace(like, ns=given["ns"] or like.ns)
    else:
        given["ns"] = given["ns"] or DEFAULT_NS
        place = Queues(**given, strict_names=not getattr(args, f"{prefix}any_names"))
    place.reach()
    return place


def _queues(at: Queues, names: Iterable[str | None]) -> None:
    for name in names:
        if name is not None:
            at.server().require(name)


def _archive(args: argparse.Namespace) -> Job:
    source = _place(args)
    _queues(source, args.queues)
    return lambda spark, tell: pipelines.archive(
        spark, source, args.queues, args.path, checkpoint=args.checkpoint, follow=args.follow,
        keep=args.keep, text=args.text, batch=args.batch, tell=tell,
    )  # fmt: skip


def _replay(args: argparse.Namespace) -> Job:
    target = _place(args)
    _queues(target, [] if args.create else [args.queue])
    return lambda spark, tell: pipelines.replay(
        spark, args.path, target, args.queue, kind=args.kind, date=args.date, where=args.where,
        restore=args.restore, create=args.create, write_id=args.write_id, tell=tell,
    )  # fmt: skip


def _migrate(args: argparse.Namespace) -> Job:
    source, target = _place(args, "from_"), _place(args, "to_")
    return lambda spark, tell: pipelines.migrate(spark, source, target, args.queues, tell=tell)


def _transform(args: argparse.Namespace) -> Job:
    function, source = function_of(args.function), _place(args)
    target = _place(args, "to_", source)
    _queues(source, args.queues)
    _queues(target, [] if args.create else [args.to])
    return lambda spark, tell: pipelines.transform(
        spark, source, args.queues, target, args.to, function, checkpoint=args.checkpoint,
        follow=args.follow, create=args.create, binary=args.binary, batch=args.batch, tell=tell,
    )  # fmt: skip


def _redrive(args: argparse.Namespace) -> Job:
    at = _place(args)
    _queues(at, [args.dead_letter_queue, args.otherwise])
    return lambda spark, tell: pipelines.redrive(
        spark, at, args.dead_letter_queue, args.to, args.otherwise, checkpoint=args.checkpoint,
        batch=args.batch, tell=tell,
    )  # fmt: skip


def _report(args: argparse.Namespace) -> Job:
    at = _place(args)
    _queues(at, args.queues or [])
    return lambda spark, tell: pipelines.report(spark, at, args.queues, path=args.path, tell=tell)


def _drain(args: argparse.Namespace) -> Job:
    source = _place(args)
    _queues(source, args.queues)
    return lambda spark, tell: pipelines.drain(
        spark, source, args.queues, args.path, checkpoint=args.checkpoint, kind=args.kind,
        batch=args.batch, tell=tell,
    )  # fmt: skip


_JOBS: dict[str, Callable[[argparse.Namespace], Job]] = {
    "archive": _archive,
    "replay": _replay,
    "migrate": _migrate,
    "transform": _transform,
    "redrive": _redrive,
    "report": _report,
    "drain": _drain,
}


if __name__ == "__main__":
    sys.exit(main())
