"""
The commands that are one call of the client.
"""

from __future__ import annotations

from rsmq.cli.app.one_call import one_call

list_ = one_call("list_queues")
pause = one_call("pause_queue")
resume = one_call("resume_queue")
delete = one_call("delete_messages")
visibility = one_call("change_messages_visibility")
move = one_call("move_messages")
sweep_expired = one_call("sweep_expired")
sweep_groups = one_call("sweep_groups")
