"""A slow model of tokens, written from the text of seed 002 alone: a table of tokens and a table of joins.

It knows nothing of the kernel. A plan is a tree of tasks and forks; each operation is a few updates of rows, in the
words of the text: claim by compare-and-set, fork, join once per group, retry of the same token.
"""

from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

Kind = Literal["task", "person"]
LIFE = {
    "created": {"ready", "terminated"},
    "ready": {"executing", "terminated"},
    "executing": {"waiting", "completed", "failed", "ready", "terminated"},
    "waiting": {"ready", "terminated"},
    "failed": {"ready", "waiting", "terminated"},
    "completed": set[str](),
    "terminated": set[str](),
}
"""Section 3.1, with what 7 and 8 add: waiting is resumed by an event, a failed token is rescheduled."""


@dataclass(frozen=True)
class Step:
    """A task of a worker or of a person, or branches that run in parallel, each a line of steps."""

    name: str
    kind: Kind = "task"
    branches: tuple[tuple["Step", ...], ...] = ()


@dataclass
class Row:
    """Section 2."""

    node: str
    path: tuple[Step, ...]  # what follows in its line
    group: tuple[int, ...]  # one id cannot nest, so it is a stack
    status: str = "created"
    version: int = 1

    def become(self, status: str) -> None:
        """One transition; an illegal one stops the test."""
        assert status in LIFE[self.status], (self.node, self.status, status)
        self.status, self.version = status, self.version + 1


@dataclass
class TokenTable:
    """All tokens of one instance, ended ones included, and `parallel_join` of section 6.3."""

    rows: list[Row] = field(default_factory=list)
    expected: dict[int, tuple[int, tuple[Step, ...], str]] = field(default_factory=dict)  # group: size, rest, join
    joined: set[int] = field(default_factory=set)
    _groups: "count[int]" = field(default_factory=count)

    def live(self) -> list[Row]:
        """The tokens that may still do something."""
        return [row for row in self.rows if row.status not in ("completed", "terminated")]

    def find(self, node: str) -> Row:
        """The live token at a node of the plan, of which there is one."""
        (row,) = [row for row in self.live() if row.node == node]
        return row

    def begin(self, plan: tuple[Step, ...]) -> None:
        """The first token of an instance."""
        self._enter(plan, ())

    def claim(self, row: Row) -> bool:
        """Section 4.2: one updated row, or none."""
        if row.status != "ready":
            return False
        row.become("executing")
        return True

    def complete(self, node: str) -> None:
        """The work at a node is done; what follows gets a token of its own."""
        row = self.find(node)
        self._execute(row)
        row.become("completed")
        self._enter(row.path, row.group)

    def fail(self, node: str, *, backoff: bool) -> None:
        """Section 8: the same token is rescheduled, by a timer if there is a backoff."""
        row = self.find(node)
        self._execute(row)
        row.become("failed")
        row.become("waiting" if backoff else "ready")

    def give_up(self, node: str) -> None:
        """No retry is left."""
        row = self.find(node)
        self._execute(row)
        row.become("failed")

    def repair(self, node: str) -> None:
        """A person reschedules a failed token."""
        self.find(node).become("ready")

    def cancel(self) -> None:
        """Nothing is scheduled again."""
        for row in self.live():
            row.become("terminated")

    def _execute(self, row: Row) -> None:
        if row.status in ("waiting", "failed"):
            row.become("ready")
        assert self.claim(row), row

    def _enter(self, plan: tuple[Step, ...], group: tuple[int, ...]) -> None:
        if not plan:
            if group:
                self._arrive(group)
            return
        first, rest = plan[0], plan[1:]
        row = Row(first.name, rest, group)
        self.rows.append(row)
        row.become("ready")
        if not first.branches:
            if first.kind == "person":
                assert self.claim(row)
                row.become("waiting")
            return
        assert self.claim(row)
        row.become("completed")  # 6.1: the parent is completed
        new = next(self._groups)
        self.expected[new] = len(first.branches), rest, f"{first.name}_join"
        for branch in first.branches:
            self._enter(branch, (*group, new))

    def _arrive(self, group: tuple[int, ...]) -> None:
        """6.3: count those of the group at the join; `joined` turns true once."""
        size, rest, join = self.expected[group[-1]]
        row = Row(join, (), group)
        self.rows.append(row)
        row.become("ready")
        assert self.claim(row)
        there = [one for one in self.rows if one.node == join and one.group == group and one.status == "waiting"]
        if len(there) + 1 < size:
            row.become("waiting")
            return
        assert group[-1] not in self.joined
        self.joined.add(group[-1])
        for one in there:
            self._execute(one)
            one.become("completed")
        row.become("completed")
        after = Row(join, rest, group[:-1])
        self.rows.append(after)
        for status in ("ready", "executing", "completed"):
            after.become(status)
        self._enter(rest, group[:-1])


def shapes(rows: list[tuple[str, str, tuple[int, ...], int]]) -> Counter[tuple[str, str, int, frozenset[str], int]]:
    """Tokens without their numbers: node, status, depth, the nodes that share the innermost group, and the version."""
    together: dict[int, set[str]] = {}
    for node, _, groups, _ in rows:
        for group in groups:
            together.setdefault(group, set()).add(node)
    return Counter(
        (node, status, len(groups), frozenset(together[groups[-1]]) if groups else frozenset(), version)
        for node, status, groups, version in rows
    )
