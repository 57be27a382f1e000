"""
The command sweep-bodies.
"""

from __future__ import annotations

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command, options
from rsmq.errors.printable import format_count


@command(
    "sweep-bodies",
    "rsmq sweep-bodies --codec app:codec",
    "rsmq sweep-bodies --codec app:codec --dry-run",
)
@options("""
    --grace DURATION=86400  How long an object must be in no message, 60 seconds to a year.
    --dry-run  Delete nothing, and report what would be deleted.
    """)
def sweep_bodies(call: Call, grace: float, *, dry_run: bool) -> None:
    """
    Delete stored bodies that no message has.

    Stored of rsmq.codecs writes large bodies to a store; --codec names that codec. A call notes
    which objects are in no message, dead letter, schedule or deletion that rsmq undo can restore,
    and deletes those that have been so for --grace. Run it once an hour or a day.
    """
    from rsmq.body_stores.sweep import sweep_bodies as sweep  # noqa: PLC0415 - takes time
    from rsmq.codecs import Stored  # noqa: PLC0415 - as above
    from rsmq.codecs.readable import import_codec  # noqa: PLC0415 - as above

    name = call.options.get("codec")
    codec = None if name is None else import_codec(name)
    if not isinstance(codec, Stored):
        raise click.UsageError("--codec must name a Stored of rsmq.codecs, as in app:codec.")
    with call.open() as rsmq, call.out.progress("reading", None) as advance:
        swept = sweep(rsmq, codec.store, grace=grace, dry_run=dry_run, tell=advance)
    verb = "would be deleted" if dry_run else "deleted"
    line = f"{format_count(swept.objects, 'object')}: {swept.unused:,} in no message, "
    fields = {"objects": swept.objects, "unused": swept.unused, "deleted": swept.deleted}
    call.out.result({**fields, "dry_run": dry_run}, f"{line}{swept.deleted:,} {verb}")
