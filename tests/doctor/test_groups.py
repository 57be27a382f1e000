"""Groups that wait without need, because another client has deleted the message in front."""

from __future__ import annotations

import pytest

from rsmq import RSMQ
from rsmq.doctor import examine
from rsmq.doctor.operations import examine_groups


@pytest.fixture
def delete_as_node(namespace, raw):
    """A function: deletes messages as Node does, which admits no next one."""

    def delete(*ids):
        raw.zrem(namespace.zset(), *ids)
        raw.hdel(namespace.hash(), *ids)

    return delete


def test_a_group_whose_first_message_node_deleted_is_found_and_admitted(
    namespace, rsmq, delete_as_node
):
    first, second, third, *_ = rsmq.send_messages("q", ["m"] * 5, groups=["a", "a", "a", "b", "b"])
    delete_as_node(first)

    (finding,) = namespace.examine()
    assert (finding.code, finding.severity, finding.safe) == ("waiting-group", "warning", True)
    assert (finding.number, finding.examples) == (1, (second,))
    assert finding.remedy.endswith("as rsmq sweep-groups q does.")
    assert namespace.repair() == [("waiting-group", "q", 1)]
    scores, now = namespace.read_scores(), namespace.now_ms()
    assert scores[second] <= now < scores[third]
    assert namespace.raw.zrange(f"{namespace.zset()}:x:admitted", 0, -1)[0] == b"a\0" + (
        second.encode()
    )
    assert namespace.find_codes() == []
    assert namespace.repair() == []


def test_a_limit_key_with_a_free_place_is_found(namespace, rsmq, delete_as_node):
    sent = rsmq.send_messages("q", ["m"] * 6, limit_keys=["a"] * 6, max_running=3)
    assert namespace.find_codes() == []
    delete_as_node(sent[1])

    (finding,) = namespace.examine()
    assert (finding.code, finding.examples) == ("waiting-group", (sent[3],))
    assert namespace.repair() == [("waiting-group", "q", 1)]
    assert namespace.read_scores()[sent[3]] <= namespace.now_ms() < namespace.read_scores()[sent[4]]
    assert namespace.find_codes() == []


def test_it_is_no_finding_while_workers_sweep(namespace, rsmq, raw, delete_as_node):
    first, _ = rsmq.send_messages("q", ["m"] * 2, groups=["a", "a"])
    delete_as_node(first)
    now = namespace.now_ms()

    raw.hset(namespace.hash(), "x:groups", f"{now + 45_000} ")
    assert namespace.find_codes() == []
    raw.hset(namespace.hash(), "x:groups", f"{now - 3_600_000} position")
    assert namespace.find_codes() == [("waiting-group", "q", 1)]


def test_a_group_that_another_client_has_shown_does_not_wait(namespace, rsmq, raw, delete_as_node):
    first, second, _ = rsmq.send_messages("q", ["m"] * 3, groups=["a", "a", "a"])
    delete_as_node(first)

    raw.zadd(namespace.zset(), {second: namespace.now_ms()})
    assert namespace.find_codes() == []


def test_messages_of_a_group_that_are_gone_are_passed_over(namespace, rsmq, delete_as_node):
    sent = rsmq.send_messages("q", ["m"] * 130, groups=["a"] * 130)
    delete_as_node(*sent[:120])

    (finding,) = namespace.examine()
    assert (finding.code, finding.examples) == ("waiting-group", (sent[120],))


def test_the_rest_of_a_group_that_was_examined_is_not_read(namespace, rsmq, delete_as_node):
    keys = rsmq.namespace.queue("q")
    groups = ["a"] * 400 + [f"b{each:03}" for each in range(120)] * 2
    sent = rsmq.send_messages("q", ["m"] * len(groups), groups=groups)
    delete_as_node(sent[0], *sent[400:520])

    step = rsmq.run(examine_groups(keys, b""))
    assert step == (b"a\1", [sent[1].encode()])
    position, ids = rsmq.run(examine_groups(keys, b"a\1"))
    assert (position, len(ids)) == (b"b099\1", 100)
    position, ids = rsmq.run(examine_groups(keys, position))
    assert (position, len(ids)) == (None, 20)
    assert namespace.find_codes() == [("waiting-group", "q", 121)]
    assert namespace.repair() == [("waiting-group", "q", 121)]
    assert namespace.find_codes() == []


def test_a_user_without_the_right_to_groups_can_examine(namespace, rsmq, raw, server, ns):
    rsmq.send_messages("q", ["m"] * 2, groups=["a", "a"])
    rules = "reset", "on", ">secret", f"~{ns}:*", "+@all", "-zrangebylex"
    raw.execute_command("ACL", "SETUSER", ns, *rules)

    with RSMQ.from_url(f"redis://{ns}:secret@127.0.0.1:{server.port}/0", ns=ns) as limited:
        texts = {each.text for each in examine(limited, ["q"]).findings}
    raw.execute_command("ACL", "DELUSER", ns)
    assert "could not examine: the groups of queue q" in texts
    assert namespace.find_codes() == []


@pytest.mark.parametrize("lost", ["held_back", "group_of"])
def test_messages_whose_records_are_lost_are_found_and_due_in_order(namespace, rsmq, raw, lost):
    sent = rsmq.send_messages("q", ["m"] * 250, groups=["a"] * 250)
    assert raw.delete(f"{namespace.zset()}:x:{lost}") == 1
    rsmq.delete_message("q", sent[0])

    findings = {each.code: each for each in namespace.examine()}
    finding = findings.pop("lost-group-record")
    assert (finding.severity, finding.safe, finding.number) == ("error", True, 249)
    assert findings.keys() == ({"waiting-group"} if lost == "group_of" else set())
    assert ("lost-group-record", "q", 249) in namespace.repair()
    scores, now = namespace.read_scores(), namespace.now_ms()
    assert [id for id in scores if scores[id] <= now] == [sent[1]]
    assert raw.hlen(f"{namespace.zset()}:x:group_of") == 249
    assert raw.zcard(f"{namespace.zset()}:x:held_back") == 248
    assert namespace.find_codes() == []


@pytest.mark.parametrize("is_used_again", [False, True])
def test_messages_that_are_held_back_without_any_record_are_shown_in_their_order(
    namespace, rsmq, raw, is_used_again
):
    sent = rsmq.send_messages("q", ["m"] * 250, groups=["a"] * 250)
    delayed = rsmq.send_message("q", "m", group="b", delay=600)
    raw.delete(*(f"{namespace.zset()}:x:{name}" for name in ("held_back", "admitted", "group_of")))
    if is_used_again:
        rsmq.send_messages("q", ["m"] * 3, groups=["a"] * 3)

    (finding,) = namespace.examine()
    assert (finding.code, finding.severity, finding.number) == ("lost-group", "error", 249)
    assert finding.ways == ("lost-group",)
    assert namespace.repair() == []
    before = namespace.read_scores()
    assert namespace.repair("lost-group") == [("lost-group", "q", 249)]
    after, now = namespace.read_scores(), namespace.now_ms()
    assert [id for id in after if id in sent] == sent
    assert all(after[id] <= now for id in sent)
    assert after[delayed] == before[delayed] > now
    assert namespace.find_codes() == []


@pytest.mark.parametrize("name", ["held_back", "group_of", "admitted"])
def test_a_key_of_groups_of_a_wrong_type_is_found_and_replaced(namespace, rsmq, raw, name):
    first, second, third = rsmq.send_messages("q", ["m"] * 3, groups=["a"] * 3)
    key = f"{namespace.zset()}:x:{name}"
    raw.delete(key)
    raw.set(key, "of another program")
    rsmq.delete_message("q", first)

    (finding,) = namespace.examine()
    assert (finding.code, finding.severity) == ("wrong-group-key", "error")
    assert finding.ways == ("wrong-group-key",)
    assert finding.text == f"{key} is a string"
    assert namespace.repair() == []
    assert raw.get(key) == b"of another program"
    assert namespace.repair("wrong-group-key") == [("wrong-group-key", "q", 1)]
    assert namespace.find_codes() == []
    scores, now = namespace.read_scores(), namespace.now_ms()
    assert (scores[second] <= now, scores[third] > now) == (True, True)
    assert rsmq.delete_message("q", second)
    assert namespace.read_scores()[third] <= namespace.now_ms()


@pytest.mark.parametrize("is_in_flight", [True, False])
def test_a_message_that_is_held_back_and_restored_waits_for_its_turn(
    namespace, rsmq, raw, is_in_flight, monkeypatch
):
    """Its id was removed from the sorted set, and its body was not."""
    sent = rsmq.send_messages("q", ["m"] * 3, groups=["a"] * 3)
    received = rsmq.receive_message("q") if is_in_flight else None
    raw.zrem(namespace.zset(), sent[2])
    monkeypatch.setattr("rsmq.doctor.repairer.GRACE_MS", 0)  # the pause before a second check

    assert namespace.repair("orphan-body:restore") == [("orphan-body", "q", 1)]
    assert namespace.read_scores()[sent[2]] > namespace.now_ms()
    assert rsmq.get_message("q", sent[2]).state == "held_back"
    order = []
    while received := received or rsmq.receive_message("q"):
        order.append(received.id)
        assert rsmq.receive_message("q") is None
        rsmq.delete_message(received)
        received = None
    assert order == sent


def test_the_messages_of_groups_are_restored_in_their_order(namespace, rsmq, raw, monkeypatch):
    """The sorted set was lost."""
    monkeypatch.setattr("rsmq.doctor.repairer.GRACE_MS", 0)
    sent = rsmq.send_messages("q", ["m"] * 250, groups=["a", "b"] * 125)
    raw.delete(namespace.zset())

    assert namespace.repair("orphan-body:restore") == [("orphan-body", "q", 250)]
    scores, now = namespace.read_scores(), namespace.now_ms()
    assert sorted(id for id in scores if scores[id] <= now) == sorted(sent[:2])
    assert raw.zcard(f"{namespace.zset()}:x:held_back") == 248
    assert raw.zcard(f"{namespace.zset()}:x:admitted") == 2
    assert raw.hlen(f"{namespace.zset()}:x:group_of") == 250
    assert namespace.find_codes() == []


def test_lost_records_are_no_finding_while_workers_sweep(namespace, rsmq, raw):
    rsmq.send_messages("q", ["m"] * 2, groups=["a", "a"])
    raw.delete(f"{namespace.zset()}:x:held_back")
    raw.hset(namespace.hash(), "x:groups", f"{namespace.now_ms() + 45_000} ")

    assert namespace.find_codes() == []
