"""The rules of admission keep their promises in every state of a small queue; others do not."""

from __future__ import annotations

import pytest

from tests.admission.events import State
from tests.admission.model import Model, Size
from tests.admission.search import Broken, search
from tests.scale import SOAK

ONE_AT_A_TIME = Size(groups=1, messages=3, consumers=2, most=1)
TWO_AT_A_TIME = Size(groups=1, messages=3, consumers=2, most=2)
TWO_GROUPS = Size(groups=2, messages=2, consumers=2, most=1)

SEARCHES = [
    (ONE_AT_A_TIME, 1),
    (TWO_AT_A_TIME, 0),
    (Size(groups=1, messages=3, consumers=1, most=2), 1),
    (Size(groups=2, messages=2, consumers=1, most=1), 0),
]
#: Minutes of processor time.
LARGE_SEARCHES = [
    (Size(groups=2, messages=3, consumers=2, most=1), 0),
    (TWO_GROUPS, 0),
    (TWO_GROUPS, 1),
    (TWO_AT_A_TIME, 1),
    (Size(groups=1, messages=4, consumers=2, most=1), 1),
    (ONE_AT_A_TIME, 2),
]


@pytest.mark.parametrize(("size", "faults"), SEARCHES + (LARGE_SEARCHES if SOAK else []))
def test_no_state_breaks_order_or_limit_and_no_message_is_lost_or_stuck(size, faults):
    assert search(size, faults=faults).states > 1000


class DeleteAdmitsNone(Model):
    def settle(self, message):
        self.remove(message)
        self.forget(message)


class SweepAdmitsNone(Model):
    def sweep(self, group):
        pass


class SweepRenewsNone(Model):
    def renewed(self):
        return 0


class SweepLeavesBothLists(Model):
    def sweep(self, group):
        if any(self.held >> message & 1 for message in self.members(group)):
            self.admit(group)


class HolderOutlivesItsMessage(Model):
    def is_gone(self, message):
        return False


class EndedLeaseMakesRoom(Model):
    def admit(self, group):
        room = super().admit(group)
        visible = [m for m in self.members(group) if self.states[m] == State.DUE]
        return room + len([m for m in visible if self.was_received(m)])


class ReceivedIsHeldBack(Model):
    def was_received(self, message):
        return False


class ReleaseShowsHeldBack(Model):
    def show_by_id(self, message):
        self.score(message, State.DUE)


class SweepListsNothingAgain(Model):
    def is_unlisted(self, _message):
        return False


class UnlistedBeforeItIsDue(SweepListsNothingAgain):
    def admit(self, group):
        for message in self.members(group):
            if self.held >> message & 1 and not self.admitted:
                self.discard("held", message)
                self.score(message, State.DUE)
                self.add("admitted", message)
                break
        return super().admit(group)


class NoRoomIsCounted(Model):
    def admit(self, group):
        super().admit(group)
        return self.size.most


class LastIsAdmittedFirst(Model):
    def members(self, group):
        return super().members(group)[::-1]


@pytest.mark.parametrize(
    ("mutant", "size", "broken"),
    [
        (DeleteAdmitsNone, ONE_AT_A_TIME, "held back without need"),
        (SweepAdmitsNone, ONE_AT_A_TIME, "stuck"),
        (SweepRenewsNone, ONE_AT_A_TIME, "not in order"),
        (SweepLeavesBothLists, ONE_AT_A_TIME, "stuck"),
        (HolderOutlivesItsMessage, ONE_AT_A_TIME, "stuck"),
        (EndedLeaseMakesRoom, ONE_AT_A_TIME, "not in order"),
        (ReceivedIsHeldBack, ONE_AT_A_TIME, "another consumer can receive it during a lease"),
        (ReleaseShowsHeldBack, ONE_AT_A_TIME, "not in order"),
        (SweepListsNothingAgain, ONE_AT_A_TIME, "stuck"),
        (UnlistedBeforeItIsDue, ONE_AT_A_TIME, "stuck"),
        (NoRoomIsCounted, TWO_AT_A_TIME, "not in order"),
        (LastIsAdmittedFirst, ONE_AT_A_TIME, "not in order"),
    ],
)
def test_a_changed_rule_is_found(mutant, size, broken):
    with pytest.raises(Broken) as found:
        search(size, mutant, faults=1)
    assert found.value.args[0] == broken
