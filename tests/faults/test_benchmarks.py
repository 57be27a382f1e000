"""The parts of the benchmarks that do more than call the clients do what their pages say."""

from __future__ import annotations

import pytest

from rsmq import RSMQ, Partitions
from scripts.benchmark.scale_partitions import (
    BATCH,
    Control,
    against_control,
    in_batches,
    one_by_one,
)

COUNT = 6


@pytest.mark.parametrize(("batch", "work"), [(1, one_by_one), (BATCH, in_batches)])
def test_the_control_sends_receives_and_deletes_in_each_partition(cluster, batch, work):
    ns = f"control-{batch}"
    with Partitions.from_url(cluster.url, ns=ns, count=COUNT) as partitions:
        partitions.create_queue("q")
        work(partitions)  # loads the scripts
        before = [each.get_queue_attributes("q").total_sent for each in partitions.clients]
        control = Control(cluster, partitions.namespaces, batch)
        assert control.run([0, 1, 2, 3, 4, 5, 5]) == 7 * batch
        control.close()
        after = [each.get_queue_attributes("q") for each in partitions.clients]
    sent = [each.total_sent - earlier for each, earlier in zip(after, before, strict=True)]

    assert sent == [batch] * 5 + [2 * batch]
    assert [each.total_received for each in after] == [each.total_sent for each in after]
    for name in partitions.namespaces:
        assert cluster.raw.zcard(f"{name}:q") == 0
        assert not [field for field in cluster.raw.hkeys(f"{name}:q:Q") if len(field) >= 32]


def test_the_control_fails_without_its_scripts(cluster):
    with RSMQ.from_url(cluster.url, ns="{control}") as one:
        one.create_queue("q")
    for node in cluster.masters:
        node.ask("SCRIPT", "FLUSH")
    control = Control(cluster, ["{control}"], 1)

    with pytest.raises(Exception, match="NOSCRIPT"):
        control.run([0])
    control.close()


def test_the_price_of_the_control_is_added_to_that_of_one_namespace():
    one, many = (60e-6, 40e-6), (64e-6, 56e-6)
    control_one, control_many = (20e-6, 40e-6), (24e-6, 56e-6)

    assert against_control([(one, many, control_one, control_many)] * 3) == pytest.approx(1.0)
    assert against_control([(one, many, control_one, control_one)]) == pytest.approx(1.2)
