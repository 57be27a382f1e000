"""The checks of scripts/release before it builds anything."""

from __future__ import annotations

import pytest

from scripts.releasing.environments import must
from scripts.releasing.source import check_changelog, check_place


@pytest.fixture
def clone(tmp_path):
    """A clone of version 0.2.0 whose commit is tagged."""
    (tmp_path / "rsmq").mkdir()
    (tmp_path / "rsmq" / "__init__.py").write_text('__version__ = "0.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 0.2.0\n\n## 0.1.0\n")
    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path)
    git(tmp_path, "tag", "v0.2.0")
    return tmp_path


def git(clone, *arguments):
    must("git", "-c", "user.name=Ann", "-c", "user.email=ann@example.org", *arguments, cwd=clone)


def commit(clone):
    git(clone, "add", ".")
    git(clone, "commit", "-q", "--allow-empty", "-m", "a change")


def test_a_tagged_clean_main_can_be_released(clone):
    assert check_place(clone) == []
    assert check_changelog(clone) == []


def test_another_branch_a_change_and_an_old_tag_are_named(clone):
    commit(clone)
    git(clone, "switch", "-q", "-c", "topic")
    (clone / "CHANGELOG.md").write_text("## 0.3.0\n")

    assert check_place(clone) == [
        "The branch is topic. Release from main.",
        "There are changes that are not committed. Commit or remove them.",
        "The tag v0.2.0 is at another commit. Raise the version.",
    ]
    assert check_changelog(clone) == [
        "CHANGELOG.md begins with 0.3.0, and the version is 0.2.0. Write its changes there."
    ]


def test_a_missing_tag_is_named(clone):
    git(clone, "tag", "-d", "v0.2.0")

    assert check_place(clone) == ["The tag v0.2.0 is missing. Create it: git tag -a v0.2.0."]
