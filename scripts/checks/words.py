"""
Warns about phrases for which there is a plainer wording, see CONTRIBUTING.md.

Code spans, and the entries of released versions in the changelog, are exempt.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]

#: A better wording for each phrase.
_PHRASES = {
    r"\bfor ever\b": "forever",
    r"(?<!there )\bis no (?!longer|more|other|less)": "is not a",
    r"\bnobody knows\b": "say what is unknown",
    r"\bwho does not\b": "name who",
    r"\bwhat it\b": "name the thing",
    r"(?:^|(?<=[.:;] ))(?-i:What|Who|Whoever|That which) [^?.]*\.(?= |$)": "begin with the subject",
    r"\b(?:is|are|was|were|be) told\b": "receives, is passed, or reports",
    r"\btells? of\b": "reports",
    r"\b(?:goes|went|go) on\b": "continues",
    r"\b(?:somebody|nobody|whoever)\b": "name the client, the process or the user",
    r"\b(?:giv(?:e|es|en|ing)|gave) back\b": "release, or return",
    r"\bcom(?:e|es|ing) back\b": "is received again, or returns",
    r"\blet(?:s|ting)? go\b": "release, or abandon",
    r"\bstands\b(?! for)": "is stored",
    r"\bin vain\b": "without a result",
    r"\banew\b": "again",
}
_FAULTS = [(re.compile(phrase, re.IGNORECASE), better) for phrase, better in _PHRASES.items()]
_CODE = re.compile(r"```.*?```|``.*?``|`[^`\n]*`", re.DOTALL)


def _warn(name: str) -> None:
    text = (_ROOT / name).read_text()
    if name == "CHANGELOG.md":
        text = text.partition("\n## ")[2].partition("\n## ")[0]
    if name.endswith(".md"):
        text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)  # headings may be questions
    # A phrase may run over the end of a line.
    plain = " ".join(re.sub('#|--|"', " ", _CODE.sub(" code ", text)).split())
    for phrase, better in _FAULTS:
        for found in phrase.finditer(plain):
            excerpt = plain[max(found.start() - 20, 0) : found.end() + 20]
            print(f"warning: {name}: {excerpt!r}: {better}")


if __name__ == "__main__":
    names = subprocess.check_output(["git", "ls-files", "*.md", "rsmq", "scripts"], text=True)
    for each in names.split():
        if each.endswith((".md", ".py", ".lua")) and each != "scripts/checks/words.py":
            _warn(each)
