"""
Refuses phrases for which there is a plainer wording, see CONTRIBUTING.md.

Code spans, and the entries of released versions in the changelog, are exempt.
"""

from __future__ import annotations

import re
import subprocess
import sys
from bisect import bisect_right
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]

#: A better wording for each phrase.
_PHRASES = {
    r"\bfor ever\b": "forever",
    r"(?<!there )\bis no (?!longer|more|other|less)": "is not a",
    r"\bnobody knows\b": "say what is unknown",
    r"\bwho does not\b": "name who",
    # "Ask it what it runs" and "text: what it is" are plain.
    r"\b(?:of|with|from|than|to|into|has|keeps?|gets?|uses?|only|releases?) what it\b": (
        "name the thing"
    ),
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


def _read(name: str) -> tuple[str, list[int], list[int]]:
    """Return the words of a file in one line, the offset of each, and its line in the file."""
    text = (_ROOT / name).read_text()
    if name == "CHANGELOG.md":
        title, unreleased, rest = text.partition("\n## ")
        text = title + unreleased + rest.partition("\n## ")[0]
    if name.endswith(".md"):
        text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)  # headings may be questions
    text = _CODE.sub(lambda code: " code " + "\n" * code.group().count("\n"), text)
    # A phrase may run over the end of a line.
    words, starts, lines, start = [], [], [], 0
    for number, line in enumerate(text.split("\n"), start=1):
        for word in re.sub('#|--|"', " ", line).split():
            words.append(word)
            starts.append(start)
            lines.append(number)
            start += len(word) + 1
    return " ".join(words), starts, lines


def find_faults(name: str) -> list[str]:
    """Return the phrases of a file that have a plainer wording, each with its line."""
    plain, starts, lines = _read(name)
    faults = []
    for phrase, better in _FAULTS:
        for found in phrase.finditer(plain):
            line = lines[bisect_right(starts, found.start()) - 1]
            excerpt = plain[max(found.start() - 20, 0) : found.end() + 20]
            faults.append(f"{name}:{line}: {excerpt!r}: {better}")
    return faults


def main() -> int:
    """Print each fault with its file and line, and return 1 if there is one."""
    names = subprocess.check_output(["git", "ls-files", "*.md", "rsmq", "scripts"], text=True)
    faults = [
        fault
        for each in names.split()
        if each.endswith((".md", ".py", ".lua")) and each != "scripts/checks/words.py"
        for fault in find_faults(each)
    ]
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
