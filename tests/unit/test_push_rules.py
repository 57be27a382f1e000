"""The rules of webhooks that need no server: addresses, URLs, secrets, signatures, verdicts."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook

from rsmq import InvalidFormat, MissingParameter
from rsmq.webhooks.addresses import AddressRefused, AddressRules, parse_ranges
from rsmq.webhooks.answers import Answer, PushFailed, Verdict, judge
from rsmq.webhooks.signatures import Signer, parse_secrets, read_secrets
from rsmq.webhooks.targets import parse_target, target_field

PUBLIC = AddressRules()


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1",
        "127.255.255.254", "168.63.129.16", "169.254.169.254", "172.16.0.1", "172.31.255.255",
        "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.1",
        "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
        "::", "::1", "::127.0.0.1", "::7f00:1", "::8.8.8.8", "::ffff:127.0.0.1",
        "::ffff:169.254.169.254", "::ffff:10.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::8.8.8.8", "100::1", "2001::1", "2001:10::1", "2001:db8::1",
        "2002:7f00:1::", "2002:808:808::",
        "3fff::1", "4000::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1",
        "ff02::1",
    ],
)  # fmt: skip
def test_addresses_that_are_not_public_are_refused(address):
    with pytest.raises(AddressRefused, match="is not public"):
        PUBLIC.check(address)


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1", "172.32.0.1", "192.0.1.1",
        "169.253.0.1", "2606:4700:4700::1111", "2a00:1450::1", "::ffff:8.8.8.8", "64:ff9b::808:808",
    ],
)  # fmt: skip
def test_public_addresses_are_allowed(address):
    PUBLIC.check(address)


def test_a_range_is_allowed_in_each_form_of_its_addresses_and_nothing_else():
    rules = AddressRules(parse_ranges(["10.0.0.0/8", "fd00::/8"]))
    for address in ("10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3", "fd00::1"):
        rules.check(address)
    for address in ("127.0.0.1", "::1", "fc00::1", "2002:a01:203::"):
        with pytest.raises(AddressRefused):
            rules.check(address)


@pytest.mark.parametrize("value", ["10.0.0.1/8", "localhost", "", "10.0.0.0/33", 5, None])
def test_ranges_are_checked(value):
    with pytest.raises(InvalidFormat, match="range of addresses"):
        parse_ranges([value])


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("example.org", "A target is a URL"),
        ("ftp://example.org/", "A target is a URL"),
        ("file:///etc/passwd", "A target is a URL"),
        ("https://", "A target is a URL"),
        ("https://x:0/", "A target is a URL"),
        ("https://x:99999/", "A target is a URL"),
        ("https://[::1", "A target is a URL"),
        ("https://user:pass@example.org/", "It has a user or a password"),
        ("https://@example.org/", "It has a user or a password"),
        ("http://example.org/", "Use https"),
        ("https://example.org/a b", "without blanks"),
        ("https://exam\tple.org/", "without blanks"),
        ("https://example.org\\@127.0.0.1/", "without blanks"),
        ("https://example.org/" + "a" * 2048, "at most 2048"),
        ("https://127.0.0.1/", "address 127.0.0.1 is not public (loopback)"),
        ("https://[::1]/", "address ::1 is not public"),
        ("https://[::ffff:169.254.169.254]/", "which is 169.254.169.254, is not public"),
        ("https://[fe80::1%25eth0]/", "link-local"),
        ("https://2130706433/", "four decimal numbers"),
        ("https://0x7f000001/", "four decimal numbers"),
        ("https://0x7f.1/", "four decimal numbers"),
        ("https://0177.0.0.1/", "four decimal numbers"),
        ("https://127.1/", "four decimal numbers"),
        (b"https://example.org", "A target is a URL"),
    ],
)
def test_urls_are_checked(url, rule):
    with pytest.raises(InvalidFormat) as caught:
        parse_target(url, allow_http=False, rules=PUBLIC)

    assert rule in str(caught.value)
    assert "pass@" not in str(caught.value)


@pytest.mark.parametrize("url", ["", None])
def test_a_missing_url(url):
    with pytest.raises(MissingParameter):
        parse_target(url, allow_http=False, rules=PUBLIC)


def test_the_text_of_a_query_is_not_shown():
    target = parse_target(
        "https://Example.org:8443/a?token=s3cret#x", allow_http=False, rules=PUBLIC
    )

    assert target.shown == "https://Example.org:8443/a?***"
    assert target.url == "https://Example.org:8443/a?token=s3cret"
    assert target.host == "example.org"
    assert "s3cret" not in repr(target)
    assert target_field("q", "https://x/#a") == target_field("q", "https://x/")
    assert target_field("q", "https://x/?a") != target_field("q", "https://x/")


def test_signatures_verify_with_standard_webhooks():
    secrets = ["whsec_" + base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2)]
    keys = parse_secrets(secrets)
    timestamp = int(datetime.now(UTC).timestamp())
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(timestamp),
        "webhook-signature": Signer(keys).sign("msg_1", timestamp, b'{"a": 1}'),
    }
    for secret in secrets:
        assert Webhook(secret).verify(b'{"a": 1}', headers) == {"a": 1}


def test_the_signature_of_the_specification():
    """The vector of the tests of https://github.com/standard-webhooks."""
    keys = parse_secrets("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")

    assert (
        Signer(keys).sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
        == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    )


@pytest.mark.parametrize(
    "secret", ["secret", "", "whsec_", "AAAA", b"short", "A" * 88, [], ["a"] * 3, [None], b"x" * 65]
)
def test_secrets_are_checked_and_not_shown(secret):
    with pytest.raises(InvalidFormat) as caught:
        parse_secrets(secret)

    assert "secret" in str(caught.value)
    assert "AAAA" not in str(caught.value)


def test_secrets_are_read_from_a_file(tmp_path):
    file = tmp_path / "secrets"
    lines = [base64.b64encode(bytes([n]) * 24).decode() for n in (1, 2)]
    file.write_text(f"# the new one\n{lines[0]}\n\n  whsec_{lines[1]}\r\n")

    assert read_secrets(file) == (b"\1" * 24, b"\2" * 24)
    file.write_text("\n")
    with pytest.raises(InvalidFormat, match="0 secrets"):
        read_secrets(file)


NOW = datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("status", "retry_after", "verdict"),
    [
        (200, None, (Verdict.DELIVERED, 0)),
        (204, "60", (Verdict.DELIVERED, 0)),
        (299, None, (Verdict.DELIVERED, 0)),
        (410, "60", (Verdict.GONE, 0)),
        (429, "60", (Verdict.PAUSE, 60)),
        (503, "60", (Verdict.PAUSE, 60)),
        (503, " 60 ", (Verdict.PAUSE, 60)),
        (503, "0", (Verdict.PAUSE, 1)),
        (503, "999999999", (Verdict.PAUSE, 86_400)),
        (429, "Mon, 23 Nov 2026 12:02:00 GMT", (Verdict.PAUSE, 120)),
        (429, "Sun, 22 Nov 2026 12:00:00 GMT", (Verdict.PAUSE, 1)),
        (429, "Mon, 23 Nov 2036 12:00:00 GMT", (Verdict.PAUSE, 86_400)),
        (429, None, (Verdict.FAILED, 0)),
        (503, None, (Verdict.FAILED, 0)),
        (503, "soon", (Verdict.FAILED, 0)),
        (503, "-5", (Verdict.FAILED, 0)),
        (503, "1.5", (Verdict.FAILED, 0)),
        (503, "9" * 400, (Verdict.FAILED, 0)),
        (503, "Mon, 99 Nov 2026 12:02:00 GMT", (Verdict.FAILED, 0)),
        (500, "60", (Verdict.FAILED, 0)),
        (302, None, (Verdict.FAILED, 0)),
        (100, None, (Verdict.FAILED, 0)),
        (None, None, (Verdict.FAILED, 0)),
    ],
)
def test_the_status_line_decides(status, retry_after, verdict):
    assert judge(Answer(status, "text", b"", retry_after), NOW) == verdict


def test_the_fields_of_a_dead_letter():
    error = PushFailed(Answer(500, "Internal Server Error", b"caf\xe9"))

    assert str(error) == "500 Internal Server Error"
    assert error.dead_letter_fields == {"traceback": None, "status": 500, "answer": "caf\ufffd"}
    assert str(PushFailed(Answer(None, "no answer within 10 seconds"))) == (
        "no answer within 10 seconds"
    )
