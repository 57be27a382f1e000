"""
The output of popped messages, which are lost if they are not written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from rsmq.cli.app.call import Call
from rsmq.cli.app.errors import Failed
from rsmq.cli.app.exit_codes import Exit
from rsmq.cli.app.output import format_count, to_json_value
from rsmq.cli.commands.receive import BodyFormat, format_messages
from rsmq.model import Message


class PoppedWriter:
    """
    A writer of popped messages, batch by batch: as bodies, as a table, or as one JSON array.

    Attributes:
        number: the number of messages that were written.
    """

    def __init__(self, call: Call, bodies: BodyFormat | None, *, has_queue_column: bool) -> None:
        """
        Create a writer.

        Args:
            call: the call of the program.
            bodies: the format, if only bodies are written; else None.
            has_queue_column: whether the table has a column with the name of the queue.
        """
        self._call = call
        self._bodies = bodies
        self._has_queue_column = has_queue_column
        self.number = 0

    def write(self, messages: Sequence[Message]) -> None:
        """
        Write messages, each before the next one.

        Raises:
            Failed: a message can't be written. The error has the number of messages that are lost.
        """
        out, written = self._call.out, 0
        try:
            for data in self._encode(messages):
                out.write(data)
                out.flush()
                written += 1
        except (OSError, KeyboardInterrupt) as error:
            self.number += written
            is_interrupt = isinstance(error, KeyboardInterrupt)
            reason = "Interrupted" if is_interrupt else getattr(error, "strerror", None) or error
            lost = len(messages) - written
            raise Failed(
                f"{format_count(lost)} {'was' if lost == 1 else 'were'} deleted and not written",
                exit=Exit.INTERRUPTED if is_interrupt else Exit.NOT_ALL,
                code="notWritten",
                hint=f"{reason}. Written: {self.number:,}. With rsmq receive and rsmq delete no "
                "message is lost.",
            ) from None
        self.number += written

    def end(self) -> None:
        """End the JSON array."""
        if self._call.as_json:
            self._call.out.write(b"]\n" if self.number else b"[]\n")

    def _encode(self, messages: Sequence[Message]) -> Iterator[bytes]:
        """Yield the output of each message."""
        if self._bodies is not None:
            separator = self._bodies.separator
            for place, message in enumerate(messages, self.number):
                if self._bodies.ends_with_it:
                    yield message.raw + separator
                else:
                    yield separator * (place > 0) + message.raw
        elif self._call.as_json:
            for place, message in enumerate(messages, self.number):
                yield (b", " if place else b"[") + json.dumps(to_json_value(message)).encode()
        else:
            heading, *lines = format_messages(messages, has_queue_column=self._has_queue_column)
            for place, line in enumerate(lines, self.number):
                text = line if place else f"{heading}\n{line}"
                yield self._call.out.encode(text) + b"\n"
