"""The made-up layout of random models: nothing overlaps, and every line begins and ends at its shapes."""

from random import Random

import pytest

from tests.support.drawn_models import HEAD
from tests.support.picture_checks import check_picture
from verblint.draw import draw
from verblint.draw.layout.branch_rows import Spans
from verblint.draw.layout.edge_routes import EdgeRouter

KINDS = ("task", "userTask", "exclusiveGateway", "parallelGateway", "endEvent", "intermediateCatchEvent", "beam")


def random_scope(random: Random, prefix: str, depth: int = 0) -> str:
    """Nodes of all kinds with flows between any two of them, boundary events, notes and nested scopes."""
    count = random.randint(1, 14)
    ids = [f"{prefix}{number}" for number in range(count)]
    parts, ends = [f'<startEvent id="{prefix}s" name="Start"/>'], [f"{prefix}s", *ids]
    for id in ids:
        name = random.choice(("", "Work", "A longer name of several words", "x" * 40))
        if depth < 2 and random.random() < 0.1:
            parts.append(f'<subProcess id="{id}" name="{name}">{random_scope(random, id, depth + 1)}</subProcess>')
            continue
        kind = random.choice(KINDS)
        parts.append(f'<{kind} id="{id}" name="{name}"/>')
        for number in range(random.choice((0, 0, 0, 1, 3)) if kind.endswith("Task") or kind == "task" else 0):
            parts.append(f'<boundaryEvent id="{id}b{number}" name="{name}" attachedToRef="{id}"/>')
            ends.append(f"{id}b{number}")
        if random.random() < 0.1:
            parts.append(f'<textAnnotation id="{id}n"/><association id="{id}a" sourceRef="{id}n" targetRef="{id}"/>')
    targets = [f"{prefix}s", *ids]
    for number in range(int(count * random.choice((0.5, 1, 1.5, 3)))):
        source, target = random.choice(ends), random.choice(targets)
        name = random.choice(("", "yes", "a condition of some length"))
        ways = f'sourceRef="{source}" targetRef="{target}"'
        parts.append(f'<sequenceFlow id="{prefix}f{number}" name="{name}" {ways}/>')
    return "".join(parts)


def random_model(random: Random) -> bytes:
    inside = random_scope(random, "n")
    lanes = ""
    if random.random() < 0.4:
        members = [[], [], []]  # type: list[list[int]]
        for number in range(14):
            random.choice(members).append(number)
        refs = ["".join(f"<flowNodeRef>n{number}</flowNodeRef>" for number in lane) for lane in members]
        lanes = "<laneSet>" + "".join(f'<lane id="l{at}">{lane}</lane>' for at, lane in enumerate(refs)) + "</laneSet>"
    pools = '<collaboration id="c"><participant id="pool" processRef="p"/></collaboration>' if lanes else ""
    return f'{HEAD}{pools}<process id="p">{lanes}{inside}</process></definitions>'.encode()


@pytest.mark.timeout(600)
def test_random_models_are_laid_out_without_overlaps() -> None:
    random = Random(20261118)
    for number in range(300):
        content = random_model(random)
        picture = draw(content)
        try:
            check_picture(content, picture)
        except AssertionError as error:
            raise AssertionError(f"number {number}: {error}") from error


def test_a_part_of_a_row_can_be_taken_again_by_its_owner_only() -> None:
    spans = Spans()
    spans.take(0, 2, 4, 7)
    spans.take(0, 8, 9, 7)

    assert not spans.is_free(0, 4, 5)
    assert not spans.is_free(0, 0, 2, 8)
    assert spans.is_free(0, 5, 7)
    assert spans.is_free(1, 0, 9)
    assert spans.is_free(0, 3, 8, 7)

    spans.take(0, 3, 8, 7)

    assert not spans.is_free(0, 6, 6)
    assert spans.is_free(0, 10, 10)


def test_lines_that_do_not_meet_share_a_track() -> None:
    router = EdgeRouter([(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0)], set(), set())
    first = router.route(0, 2, is_lower=False)
    second = router.route(3, 5, is_lower=False)
    third = router.route(0, 5, is_lower=False)

    assert router.number_tracks() == {(False, 1): 2}
    assert [route.leave for route in (first, second, third)] == ["bottom"] * 3
    assert [track.number for track in router.tracks] == [0, 0, 1]


def test_lines_between_the_same_nodes_are_apart() -> None:
    lines = "".join(f'<sequenceFlow id="{id}" sourceRef="a" targetRef="b" name="{id}"/>' for id in ("f", "g", "h"))
    fork = '<exclusiveGateway id="x"/><task id="c"/><task id="d"/>'
    ways = "".join(f'<sequenceFlow id="w{n}" sourceRef="x" targetRef="{to}"/>' for n, to in enumerate("cdd"))
    content = f'{HEAD}<process id="p"><task id="a"/><task id="b"/>{lines}{fork}{ways}</process></definitions>'.encode()

    picture = draw(content)

    assert len({picture.edges[id] for id in "fgh"}) == 3
    assert len({picture.edges[f"w{n}"] for n in range(3)}) == 3
    check_picture(content, picture)
