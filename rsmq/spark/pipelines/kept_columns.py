"""
The columns that jobs keep of messages, and the refusal of jobs that would lose a group.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, functions

from rsmq.errors import InvalidOption
from rsmq.errors.printable import format_count
from rsmq.spark.pipelines.queues import Queues
from rsmq.spark.read.schema import DEFAULT_COLUMNS
from rsmq.spark.read.sent_columns import SENT_COLUMNS
from rsmq.vocabulary.sends import ValueKind
from rsmq.vocabulary.stored import GROUP
from rsmq.wire.ids import GROUP_MARK


def name_kept_columns(source: Queues, *, with_raw: bool = False) -> str:
    """
    Return the option ``columns`` of a read of all that a message can be restored from.

    Args:
        source: the server and the namespaces; ``ns`` is a column if there are several.
        with_raw: whether the bytes of the body are read beside its text.
    """
    raw = ["raw"] if with_raw else []
    ns = ["ns"] if source.is_several else []
    return ",".join([*ns, *DEFAULT_COLUMNS[:3], *raw, *DEFAULT_COLUMNS[3:], *SENT_COLUMNS])


def refuse_loss_of_groups(messages: DataFrame, option: str, remedy: str) -> None:
    """
    Refuse to send messages as new ones that have groups or limit keys, which would be lost.

    Args:
        messages: the messages, with a column ``id``. Rows whose id is not one of messages with
            groups do not count: their columns of these names are of another program.
        option: the option that the error names.
        remedy: what to do instead, a sentence.

    Raises:
        InvalidOption: a message has a group or a limit key.
    """
    labels = [each.name for each in GROUP.values if each.kind is ValueKind.LABEL]
    names = [name for name in labels if name in messages.columns]
    if not names:
        return
    grouped = messages.where(functions.col("id").endswith(GROUP_MARK.decode()))
    (row,) = grouped.agg(*(functions.count(name).alias(name) for name in names)).collect()
    lost = [f"the {name} of {format_count(row[name])}" for name in names if row[name]]
    if lost:
        raise InvalidOption(
            option, f"new messages would be sent without {' and '.join(lost)}. {remedy}"
        )
