"""
The contract tests that are not run over HTTP, each with the reason.

A test of the client is left out if it is about something that has no request: a value of Python, a
loop, or an operation of workers. Never because the API answers otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: By reason: a file, ``file::test``, or ``file::test[values]`` with the values of one case, or
#: with the first ones and a star.
LEFT_OUT: Mapping[str, tuple[str, ...]] = {
    "the client has a loop or a block, and HTTP has not": ("test_consuming.py",),
    "a codec of a client writes to a store": ("test_stored_bodies.py", "test_body_deletions.py"),
    "a client has connections with a timeout": ("test_reply_timeout.py",),
    "for packages that are built on the client": (
        "test_plain_commands.py",
        "test_many_queues.py::test_a_failing_step_releases_the_received_messages",
        "test_many_queues.py::test_a_failing_step_returns_the_popped_messages",
        "test_queues.py::test_several_queues_are_described_in_one_call",
        "test_schedules.py::test_a_name_without_a_definition_is_removed_when_it_is_due",
        "test_waiting.py::test_a_change_is_reported_before_the_reply_to_a_later_read",
        "test_batches.py::test_a_batch_knows_whether_a_queue_has_another_visible_message",
    ),
    "a value of Python that JSON does not have, or a wrong type, which has an answer of its own": (
        "test_batches.py::test_an_invalid_number_of_messages_is_refused[1.5]",
        "test_batches.py::test_an_invalid_number_of_messages_is_refused[5]",
        "test_batches.py::test_an_invalid_number_of_messages_is_refused[None]",
        "test_batches.py::test_an_invalid_number_of_messages_is_refused[True]",
        "test_batches.py::test_invalid_bodies_are_refused[5*]",
        "test_batches.py::test_invalid_bodies_are_refused[None*]",
        "test_batches.py::test_invalid_bodies_are_refused[text*]",
        "test_batches.py::test_invalid_names_are_refused[5-InvalidFormat]",
        "test_batches.py::test_invalid_names_are_refused[None-MissingParameter]",
        "test_batches.py::test_invalid_receipts_are_refused",
        "test_batches.py::test_stored_messages_are_not_receipts",
        "test_dead_letters.py::test_a_redrive_finds_the_queue_whose_policy_names_its_source",
        "test_dead_letters.py::test_an_invalid_policy_is_refused[dead-2.5*]",
        "test_dead_letters.py::test_an_invalid_policy_is_refused[dead-None*]",
        "test_dead_letters.py::test_an_invalid_policy_is_refused[dead-True*]",
        "test_dedup.py::test_a_batch_needs_as_many_dedup_ids_as_bodies",
        "test_dedup.py::test_an_invalid_dedup_id_is_refused[5]",
        "test_dedup.py::test_an_invalid_dedup_id_is_refused[x]",
        "test_dedup.py::test_an_invalid_window_is_refused[5]",
        "test_dedup.py::test_an_invalid_window_is_refused[None]",
        "test_dedup.py::test_an_invalid_window_is_refused[True]",
        "test_deliver_at.py::test_other_values_and_a_delay_are_refused",
        "test_expiry.py::test_a_bad_number_of_retries_is_refused[0.5]",
        "test_expiry.py::test_a_bad_number_of_retries_is_refused[2]",
        "test_expiry.py::test_a_bad_number_of_retries_is_refused[True]",
        "test_groups.py::test_a_group_is_not_a_number",
        "test_inspection.py::test_a_peek_with_invalid_arguments_is_refused",
        "test_limit_keys.py::test_a_number_that_may_not_run_is_refused[2]",
        "test_limit_keys.py::test_a_number_that_may_not_run_is_refused[2.5]",
        "test_limit_keys.py::test_a_number_that_may_not_run_is_refused[True]",
        "test_limit_keys.py::test_a_text_that_is_no_rate_is_refused[5]",
        "test_messages.py::test_a_maxsize_out_of_range_is_refused",
        "test_extended_groups.py::test_the_option_is_a_bool",
        "test_messages.py::test_a_number_of_a_call_out_of_range_is_refused[5]",
        "test_messages.py::test_a_number_of_a_call_out_of_range_is_refused[True]",
        "test_messages.py::test_a_number_of_a_call_out_of_range_is_refused[inf]",
        "test_messages.py::test_a_number_of_a_call_out_of_range_is_refused[nan]",
        "test_messages.py::test_a_number_of_a_call_out_of_range_is_refused[value7]",
        "test_messages.py::test_an_attribute_out_of_range_is_refused[delay-5]",
        "test_messages.py::test_an_attribute_out_of_range_is_refused[delay-None]",
        "test_messages.py::test_an_attribute_out_of_range_is_refused[delay-True]",
        "test_messages.py::test_an_attribute_out_of_range_is_refused[delay-nan]",
        "test_messages.py::test_an_attribute_out_of_range_is_refused[delay-value7]",
        "test_messages.py::test_an_attribute_out_of_range_is_refused[vt-5]",
        "test_messages.py::test_an_attribute_out_of_range_is_refused[vt-None]",
        "test_messages.py::test_an_attribute_out_of_range_is_refused[vt-True]",
        "test_messages.py::test_an_attribute_out_of_range_is_refused[vt-nan]",
        "test_messages.py::test_an_attribute_out_of_range_is_refused[vt-value7]",
        "test_messages.py::test_only_a_received_message_is_a_receipt",
        "test_publish.py::test_names_come_from_any_iterable",
        "test_recovery.py::test_an_invalid_recovery_is_refused[options1*]",
        "test_redrive.py::test_invalid_redrives_of_given_messages_are_refused",
        "test_schedules.py::test_error_names_the_range_of_a_duration[every-5m*]",
        "test_schedules.py::test_invalid_arguments_are_refused[a-options13-MessageNotString]",
        "test_schedules.py::test_invalid_arguments_are_refused[a-options22-InvalidFormat]",
        "test_schedules.py::test_invalid_arguments_are_refused[a-options6-InvalidValue]",
    ),
    "a name in a path has at least a letter, and is a text": (
        "test_messages.py::test_a_bad_id_is_refused",
        "test_queues.py::test_a_bad_name_is_refused_before_anything_is_sent",
        "test_schedules.py::test_invalid_arguments_are_refused[-options0-MissingParameter]",
    ),
    "its class is not in its code": (
        "test_batches.py::test_front_with_a_delay_is_refused",
        "test_groups.py::test_a_message_of_a_group_is_not_put_to_the_front",
        "test_limit_keys.py::test_an_incomplete_limit_is_refused[options0-limit_key]",
        "test_limit_keys.py::test_an_incomplete_limit_is_refused[options1-max_running]",
        "test_limit_keys.py::test_an_incomplete_limit_is_refused[options2-rate]",
        "test_limit_keys.py::test_an_incomplete_limit_is_refused[options3-limit_key]",
        "test_limit_keys.py::test_an_incomplete_limit_is_refused[options4-front]",
        "test_deliver_at.py::test_the_front_has_no_time",
    ),
    "a limit of requests: a wait has 60 seconds, a redrive 10,000 messages": (
        "test_dead_letters.py::test_an_invalid_redrive_is_refused",
        "test_waiting.py::test_a_wait_out_of_range_is_refused",
    ),
    "a policy has both fields": ("test_dead_letters.py::test_a_limit_without_a_queue_is_refused",),
    "a request has messages of one queue": (
        "test_batches.py::test_a_batch_over_a_missing_queue_changes_nothing",
    ),
    "a receipt has a count": (
        "test_batches.py::test_a_message_without_a_count_is_not_a_receipt",
    ),
    "every receive is one of a list": (
        "test_messages.py::test_counts_beyond_the_precision_of_lua_are_incremented_exactly",
    ),
    "Redis's texts are not passed on": (
        "test_queues.py::test_a_key_of_another_type_is_reported_and_nothing_changes",
    ),
    "a time with microseconds, or an estimate, which answers leave out": (
        "test_inspection.py::test_a_peek_reports_the_state_of_each_message",
        "test_inspection.py::test_counts_of_states",
        "test_inspection.py::test_the_oldest_message_is_found_by_the_times_in_ids",
        "test_messages.py::test_get_message_returns_the_state_and_changes_nothing",
    ),
    "it counts keys, and the audit stream is one more": (
        "test_publish.py::test_each_queue_gets_the_same_as_from_a_send",
        "test_queues.py::test_create_writes_five_fields_and_the_index",
        "test_reasons.py::test_reasons_and_quarantine_records_are_removed_with_the_messages",
    ),
}  # fmt: skip
_WHOLE = {each for tests in LEFT_OUT.values() for each in tests if "[" not in each}
_CASES = [each for tests in LEFT_OUT.values() for each in tests if "[" in each]
_PREFIX = "http-asyncio"


def leaves_out(item: Any) -> bool:
    """Return whether a collected test is one over HTTP that is not run."""
    values = item.callspec.params if hasattr(item, "callspec") else {}
    if values.get("backend") != "http":
        return False
    if values["mode"] == "sync":  # there is one HTTP
        return True
    function = f"{item.path.name}::{item.originalname}"
    case = item.callspec.id.removeprefix(_PREFIX).removeprefix("-")
    return not _WHOLE.isdisjoint({item.path.name, function}) or any(
        f"{function}[{case}".startswith(each.rstrip("*]"))
        if each.endswith("*]")
        else f"{function}[{case}]" == each
        for each in _CASES
    )
