"""
Hostile values, which producers, workers, operators and other clients may have written.

Each value that gets out of its place leaves a trace that ``chromium.py`` finds: an element or an
attribute ``x-hostile``, a dialog, a report of the Content-Security-Policy, a link to elsewhere.
"""

from __future__ import annotations

import json

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
