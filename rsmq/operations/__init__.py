"""
One builder an operation: what is sent for a call, and what its reply means.

Builders check their arguments in Node's order, and raise before anything is sent. They do no
I/O and read no clock; the package ``transport`` runs what they return.
"""

from rsmq.operations.batches import (
    ReceiveInSteps,
    change_messages_visibility,
    delete_messages,
    pop_messages,
    receive_messages,
    release_messages,
)
from rsmq.operations.dead_letters import (
    move_messages,
    redrive_messages,
    set_dead_letter_policy,
    sweep_dead_letters,
)
from rsmq.operations.examining import (
    examine_fields,
    examine_index,
    examine_keys,
    examine_messages,
    examine_queue,
    examine_rights,
)
from rsmq.operations.inspection import (
    count_messages,
    first_place,
    new_messages,
    peek_messages,
)
from rsmq.operations.landing import (
    forget_copies,
    hand_over,
    land_copies,
    open_copy,
    take_from_list,
    take_from_queue,
    take_from_sorted_set,
)
from rsmq.operations.leases import (
    acknowledge_leased,
    extend_leased,
    forget_leases,
    hold_lease,
    keep_acknowledged,
    lease_messages,
    leased_messages,
)
from rsmq.operations.messages import (
    change_message_visibility,
    delete_message,
    get_message,
    pop_message,
    receive_message,
    send_message,
)
from rsmq.operations.operation import (
    Operation,
    Retry,
    Steps,
)
from rsmq.operations.queues import (
    create_queue,
    delete_queue,
    get_queue_attributes,
    list_queues,
    pause_queue,
    purge_queue,
    set_queue_attributes,
)
from rsmq.operations.reading import get_messages, scan_ids
from rsmq.operations.recovery import (
    recover_messages,
    release_all_messages,
)
from rsmq.operations.repairing import (
    mend_fields,
    mend_listing,
    mend_scores,
    persist_keys,
    remint_messages,
    remove_extensions,
    remove_ghosts,
    remove_left_over,
    restore_orphans,
)
from rsmq.operations.sending import publish, send_messages
from rsmq.operations.staging import (
    adopt_staged,
    finish_staged,
    publish_staged,
    restore_messages,
    restore_totals,
    stage_messages,
)
from rsmq.operations.walk import Place
from rsmq.operations.workers import (
    beat_worker,
    begin_alone,
    bury_messages,
    enter_worker,
    held_messages,
    leave_worker,
    list_workers,
    settle_messages,
    take_messages,
)

__all__ = [
    "Operation",
    "Place",
    "ReceiveInSteps",
    "Retry",
    "Steps",
    "acknowledge_leased",
    "adopt_staged",
    "beat_worker",
    "begin_alone",
    "bury_messages",
    "change_message_visibility",
    "change_messages_visibility",
    "count_messages",
    "create_queue",
    "delete_message",
    "delete_messages",
    "delete_queue",
    "enter_worker",
    "examine_fields",
    "examine_index",
    "examine_keys",
    "examine_messages",
    "examine_queue",
    "examine_rights",
    "extend_leased",
    "finish_staged",
    "first_place",
    "forget_copies",
    "forget_leases",
    "get_message",
    "get_messages",
    "get_queue_attributes",
    "hand_over",
    "held_messages",
    "hold_lease",
    "keep_acknowledged",
    "land_copies",
    "lease_messages",
    "leased_messages",
    "leave_worker",
    "list_queues",
    "list_workers",
    "mend_fields",
    "mend_listing",
    "mend_scores",
    "move_messages",
    "new_messages",
    "open_copy",
    "pause_queue",
    "peek_messages",
    "persist_keys",
    "pop_message",
    "pop_messages",
    "publish",
    "publish_staged",
    "purge_queue",
    "receive_message",
    "receive_messages",
    "recover_messages",
    "redrive_messages",
    "release_all_messages",
    "release_messages",
    "remint_messages",
    "remove_extensions",
    "remove_ghosts",
    "remove_left_over",
    "restore_messages",
    "restore_orphans",
    "restore_totals",
    "scan_ids",
    "send_message",
    "send_messages",
    "set_dead_letter_policy",
    "set_queue_attributes",
    "settle_messages",
    "stage_messages",
    "sweep_dead_letters",
    "take_from_list",
    "take_from_queue",
    "take_from_sorted_set",
    "take_messages",
]
