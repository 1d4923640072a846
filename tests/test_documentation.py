"""What README.md and docs/ point to is there: files, and sections by their names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\((?P<target>(?!https?:)[^)#\s]+)\)")
NAMED_SECTION = re.compile(
    r'\]\((?P<page>[\w./]+\.md)\), "(?P<after>[^"]+)"|"(?P<before>[^"]+)" (?:in|of) \[[^\]]+\]\((?P<of>[\w./]+\.md)\)'
)
"""A section is named behind the link to its page, or in front of it."""


def sections(page: Path) -> list[str]:
    """The headings of a page, and what its paragraphs begin with in bold."""
    return [
        found[1] or found[2]
        for found in re.finditer(r"^#+ (.+)$|^(?:[*-] )?\*\*(.+?)[.,]?\*\*", page.read_text("utf-8"), re.MULTILINE)
    ]


def missing(page: Path) -> list[str]:
    """What a page points to that is not there."""
    text = page.read_text("utf-8")
    targets = [found["target"] for found in LINK.finditer(text)]
    absent = [target for target in targets if not (page.parent / target).exists()]
    for found in NAMED_SECTION.finditer(text):
        other, name = page.parent / (found["page"] or found["of"]), found["after"] or found["before"]
        if other.exists() and name not in sections(other):
            absent.append(f"{other.name}: {name}")
    return absent


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_all_that_a_page_points_to_is_there(page: Path) -> None:
    assert missing(page) == []


def test_what_is_not_there_is_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# There\n\n## A section\n\n**Bold.** Text.\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](there.md), [b](absent.md), [c](https://example.org/absent)\n"
        '[d](there.md), "A section"; [e](there.md), "Bold"; [f](there.md), "Absent section"; "Gone" in [g](there.md)\n'
    )
    assert missing(page) == ["absent.md", "there.md: Absent section", "there.md: Gone"]
