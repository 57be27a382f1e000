"""Errors have the names and texts of Node's rsmq, and hints what to do."""

from __future__ import annotations

import pickle

import pytest

from rsmq import errors
from rsmq.wire.refusals import parse_refusal

EXAMPLES = [
    (errors.NoAttributeSupplied(), "noAttributeSupplied", "No attribute was supplied"),
    (errors.MissingParameter("qname"), "missingParameter", "No qname supplied"),
    (errors.InvalidFormat("id", hint="h"), "invalidFormat", "Invalid id format"),
    (errors.InvalidValue("vt", 0, 9999999), "invalidValue", "vt must be between 0 and 9999999"),
    (
        errors.InvalidCombination("replace", value=True, reason="r", needs=(("key",),)),
        "invalidFormat",
        "Invalid replace format",
    ),
    (errors.MessageNotString(value=3), "messageNotString", "Message must be a string"),
    (errors.MessageTooLong(value=3), "messageTooLong", "Message too long"),
    (errors.QueueNotFound("q"), "queueNotFound", "Queue not found"),
    (errors.QueueExists("q"), "queueExists", "Queue exists"),
    (
        errors.BodyNotDecodable("q", "i", b"\xff"),
        "bodyNotDecodable",
        "The codec can't decode the body of message i in queue 'q'",
    ),
    (errors.BodyUnavailable("A key"), "bodyUnavailable", "A key can't be reached now"),
    (errors.ClientClosed(), "clientClosed", "Client is closed"),
    (errors.MissingExtra("cli", "rsmq.cli"), "missingExtra", "rsmq.cli needs the extra 'cli'"),
    (errors.InvalidOption("vt", "is 1.", value="2"), "invalidOption", "Option vt: is 1."),
    (errors.BatchLost("Gone", hint="h"), "batchLost", "Gone"),
    (
        errors.CheckpointSetBack("stream l", 5, 7, "acknowledged", ""),
        "checkpointSetBack",
        (
            "The checkpoint of stream l was set back, and is older than its queue: it asks for "
            "batch 5, but batch 7 was acknowledged already"
        ),
    ),
    (
        errors.LeaseTakenOver("l"),
        "leaseTakenOver",
        "The stream l was taken over by another process, which continues it",
    ),
    (
        errors.NewerVersion("The checkpoint", 2),
        "newerVersion",
        (
            "The checkpoint was stored by a newer version of rsmq, in the form 2, which this one "
            "does not know"
        ),
    ),
    (
        errors.ScanBroken("q", "it is gone"),
        "scanBroken",
        "The scan of queue 'q' can't be completed: it is gone",
    ),
    (errors.InvalidExport(7, "is not JSON"), "invalidExport", "Line 7 of the export is not JSON"),
    (errors.SourceNotFound("There is no q", value="q"), "sourceNotFound", "There is no q"),
    (errors.SourceChanged("It was touched", value="q"), "sourceChanged", "It was touched"),
    (
        errors.SubscriberExists("q-a", is_queue_of_others=False),
        "subscriberExists",
        "The subscriber exists, with other settings or as one that is being removed",
    ),
    (errors.NotPossible("It is itself", hint="h"), "notPossible", "It is itself"),
    (errors.JobFailed("q", "i", "E: e"), "jobFailed", "The job has failed"),
    (errors.JobCancelled("q", "i"), "jobCancelled", "The job was cancelled"),
    (
        errors.JobExpired("q", "i"),
        "jobExpired",
        "The message of the job is gone, and its outcome is not known",
    ),
    (
        errors.JobNotFound("q", "i"),
        "jobNotFound",
        "There is no such job, or it has ended without a record",
    ),
    (
        errors.NotTracked("q", "i"),
        "notTracked",
        "The message is not tracked, so its progress can't be stored",
    ),
    (errors.JobNotEnded("q", "i", 5), "jobNotEnded", "The job has not ended within 5 s"),
    (
        errors.JobNotTracked("q", "i"),
        "jobNotTracked",
        "The task of the job is not tracked, so its result is not stored",
    ),
    (errors.FlowFailed("i", "no"), "flowFailed", "The flow has failed"),
    (errors.FlowCancelled("i"), "flowCancelled", "The flow was cancelled"),
    (errors.FlowNotFound("i"), "flowNotFound", "There is no such flow"),
    (errors.FlowNotEnded("i", 5, 1, 2), "flowNotEnded", "The flow has not ended within 5 s"),
    (
        errors.RunReplaced("k"),
        "runReplaced",
        "Another run of this migration has replaced this one, or the target queue was deleted",
    ),
    (errors.WorkerExists("w", "h"), "workerExists", "A worker named 'w' is running"),
    (errors.WorkerNotFound("w"), "workerNotFound", "No worker named 'w' is alive"),
    (errors.NotEmptyInTime(5, "q: 1 due"), "notEmptyInTime", "The queues are not empty in time"),
    (
        errors.NotReplicated("id", "confirmed by 0 of 1 replicas", 1.0),
        "notReplicated",
        "Stored on the primary, but not confirmed",
    ),
    (errors.ReplyLost(3, ("q",)), "replyLost", "The reply was lost"),
    (
        errors.ExecutorEnded("Its event loop was stopped"),
        "executorEnded",
        "The handlers of the worker can't be called any more",
    ),
    (
        errors.ExecutorStalled("A callback blocks", 60, "Await"),
        "executorStalled",
        "The handlers of the worker could not be called for too long",
    ),
    (errors.TooManyHungCalls(4), "tooManyHungCalls", "Too many handler calls hang"),
    (errors.WorkerReplaced("k"), "workerReplaced", "Another worker took over this worker's name"),
]


@pytest.mark.parametrize(("error", "code", "text"), EXAMPLES)
def test_code_and_text(error, code, text):
    assert (error.code, error.text) == (code, text)
    assert isinstance(error, errors.RSMQError)
    assert not hasattr(error, "__notes__")


@pytest.mark.parametrize(("error", "code", "text"), EXAMPLES)
def test_errors_can_be_pickled(error, code, text):
    copy = pickle.loads(pickle.dumps(error))

    assert (type(copy), copy.code, copy.text) == (type(error), code, text)
    assert str(copy) == str(error)
    assert (copy.value, copy.hint) == (error.value, error.hint)
    assert copy.__dict__ == error.__dict__


def test_the_tree_in_the_docstring_has_every_class():
    classes = {
        name: kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.RSMQError)
    }

    for name, kind in classes.items():
        if kind is not errors.RSMQError:
            assert f"── {name}" in errors.__doc__
            assert any(
                line.split()[-1] == kind.code
                for line in errors.__doc__.splitlines()
                if f"── {name} " in line
            )
    assert set(classes.values()) == {type(e) for e, *_ in EXAMPLES} | {
        errors.RSMQError,
        errors.ArgumentError,
    }


@pytest.mark.parametrize(
    ("reply", "kind", "value"),
    [
        ("QUEUENOTFOUND rsmq:q:Q", errors.QueueNotFound, "q"),
        ("MESSAGETOOLONG 1025 1024", errors.MessageTooLong, 1025),
        ("INVALIDVALUE vt soon or later", errors.InvalidValue, "soon or later"),
        ("INVALIDVALUE delay ", errors.InvalidValue, ""),
    ],
)
def test_an_error_of_a_script_becomes_an_exception(reply, kind, value):
    error = parse_refusal(reply, ("q",))

    assert type(error) is kind
    assert error.value == value
    assert error.hint


def test_other_error_replies_are_not_converted():
    assert parse_refusal("WRONGTYPE Operation against a key", ("q",)) is None


def test_a_value_without_repr_is_shown_by_its_type():
    class WithoutRepr:
        def __repr__(self):
            raise RuntimeError("no")

    assert errors.show(WithoutRepr()) == "a value of type WithoutRepr"
    assert errors.show(10**5000) == "a value of type int"


def test_a_body_is_shown_shortened():
    error = errors.BodyNotDecodable("q", "i", b"\xff" * 10_000)

    assert len(error.value) <= 81
    assert len(error.raw) == 10_000
