"""The attacks of the report behind the issue on trust, and the tests that replay each.

The report gives its attacks as H1 to H5, M1 to M10 and L1 to L12. Which is which is told by the sentences of the
issue's items only; within a weight they are numbered here in the order of the items.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatch


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack of the report: the item of the issue, what was done, and the tests by pattern of their names."""

    item: int
    words: str
    tests: tuple[str, ...]


REPORT: Mapping[str, Attack] = {
    "H1": Attack(
        1,
        "one message blocks a process",
        ("test_hostile_messages.py::*more_values*", "test_wide_bodies.py::*few_words*"),
    ),
    "H2": Attack(2, "idle sockets close ingress and console", ("test_slow_clients.py::test_idle_*",)),
    "H3": Attack(7, "what people read is rewritten, and verify finds nothing", ("test_record_attacks.py*",)),
    "H4": Attack(8, "a changed payload of record is accepted and signed", ("test_forged_heads.py*",)),
    "H5": Attack(
        9, "any login decides at any gate", ("test_roles.py::*audience*", "test_roles.py::*asks_for_the_role*")
    ),
    "M1": Attack(3, "5,000 attributes keep the linter busy", ("test_lint_limits.py::*attributes*",)),
    "M2": Attack(4, "one tenant starves another", ("test_fair*", "test_quota*")),
    "M3": Attack(5, "a worker's role changes the record", ("test_sql_roles.py*",)),
    "M4": Attack(6, "one query without its tenant shows others", ("test_sql_roles.py*", "test_row_level*")),
    "M5": Attack(7, "an entry is deleted or its end cut off unseen", ("test_record_attacks.py*",)),
    "M6": Attack(8, "a flag is changed in the engine", ("test_forged_flags.py*",)),
    "M7": Attack(10, "a session or key lives on", ("test_sessions.py::*", "test_api_keys.py::*")),
    "M8": Attack(
        10, "keys are guessed, and a right one is locked out", ("test_guessing.py::*", "test_sessions.py::*slowed*")
    ),
    "M9": Attack(11, "a redirect carries a secret; a withdrawn key counts", ("test_outgoing.py::*sent_on*",)),
    "M10": Attack(12, "credentials of Zeebe travel in the clear", ("test_outgoing.py::*clear*",)),
    "L1": Attack(
        1,
        "100,000 unknown fields make an answer of 4 MB",
        ("test_wide_bodies.py::*", "test_hostile_messages.py::*five*"),
    ),
    "L2": Attack(
        2,
        "a length and chunks: two requests in one",
        ("test_slow_clients.py::*two_ways*", "test_http_attacks.py::*goes_on*"),
    ),
    "L3": Attack(2, "a redirect to the host that the request names", ("test_http_limits.py::*host*",)),
    "L4": Attack(2, "one login takes every event stream", ("test_http_limits.py::*streams*",)),
    "L5": Attack(9, "whoever asked decides", ("test_roles.py::*who_asked*", "test_task_list_roles.py::*who_asked*")),
    "L6": Attack(9, "anyone releases another's claim", ("test_roles.py::*supervisor_only*",)),
    "L7": Attack(
        9, "two people of one name are one", ("test_roles.py::*one_name*", "test_login_roles.py::*issuer_and_subject*")
    ),
    "L8": Attack(13, "secrets in logs", ("test_hidden_characters.py::*no_secret*",)),
    "L9": Attack(13, "the database's log of dev is open to all", ("test_hidden_characters.py::*log_of_the_database*",)),
    "L10": Attack(13, "hidden characters in names", ("test_hidden_characters.py::*", "test_generated_code.py::*")),
    "L11": Attack(13, "a person cannot be removed", ("test_erasure.py::*",)),
    "L12": Attack(14, "images and actions by name, not by content", ("test_supply_chain.py::*",)),
}
"""By the report's ids."""


ELSEWHERE = ("stores/test_fair*.py", "stores/test_quota*.py", "stores/test_seals.py")
"""Tests of attacks in other folders."""


def replays(name: str, attack: Attack) -> bool:
    """Return whether the test of this id replays an attack; without the brackets of its case."""
    plain = name.partition("[")[0].rpartition("/")[2]
    return any(fnmatch(plain, pattern) for pattern in attack.tests)
