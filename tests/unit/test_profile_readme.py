"""The chapter of the profile lists every rule of `verify` as its page begins."""

from pathlib import Path

from verbworker.profile.verify import rules

CHAPTER = Path(rules.__file__).with_name("README.md").read_text()


def test_the_chapter_lists_every_rule_of_verify() -> None:
    listed = [line for line in CHAPTER.splitlines() if line.startswith("| VF")]

    assert listed == [f"| {rule.code} | `{rule.slug}` | {rule.summary} |" for rule in rules.RULES]
