"""Values: what the decorator promises, which is what a frozen dataclass with slots promises."""

import pickle
from functools import cached_property
from typing import Any

import pytest

from verblint.startup.value import field, fields, replace, value


@value
class Point:
    """A place on paper."""

    x: int
    y: int = 0
    marks: list[str] = field(default_factory=list)

    @property
    def sum(self) -> int:
        return self.x + self.y


@value
class Other:
    x: int
    y: int = 0
    marks: list[str] = field(default_factory=list)


@value
class Nothing:
    """A value without a field."""


@value(eq=False)
class Person:
    name: str


@value(kw_only=True)
class Named:
    first: str
    last: str = ""


@value(frozen=False)
class Counter:
    count: int = 0


@value(guarded=False)
class Light:
    x: int
    y: int


@value(guarded=False)
class Written:
    x: int
    y: int

    def __init__(self, both: int) -> None:
        object.__setattr__(self, "x", both)
        object.__setattr__(self, "y", both)


@value(slots=False)
class Circle:
    radius: int

    @cached_property
    def area(self) -> list[int]:
        return [3 * self.radius**2]


def test_fields_are_parameters_in_the_order_they_are_written() -> None:
    point = Point(1, 2)

    assert (point.x, point.y, point.marks, point.sum) == (1, 2, [], 3)


@pytest.mark.parametrize(
    ("given", "named"), [((), {}), ((1, 2, [], 4), {}), ((1,), {"x": 2}), ((1,), {"z": 2}), ((), {"y": 2})]
)
def test_a_call_that_does_not_fit_is_an_error(given: tuple[int, ...], named: dict[str, int]) -> None:
    made: Any = value(type("Fresh", (), {"__annotations__": {"x": int, "y": int, "marks": list}, "y": 0, "marks": []}))

    with pytest.raises(TypeError):
        made(*given, **named)


def test_a_class_that_is_used_often_behaves_as_before() -> None:
    points = [Point(number, marks=["a"]) for number in range(100)]

    assert [point.x for point in points] == list(range(100))
    assert points[99] == Point(99, 0, ["a"])
    assert Point(1).marks is not Point(1).marks
    assert Named(first="a", last="b") == Named(last="b", first="a")


def test_a_value_is_the_same_before_and_after_its_class_is_compiled() -> None:
    lights = [Light(number, 1) for number in range(1000)]

    assert lights[0] == Light(0, 1) == Light(y=1, x=0)
    assert [light.x for light in lights] == list(range(1000))
    assert hash(lights[0]) == hash(Light(0, 1))


def test_a_constructor_of_its_own_is_kept() -> None:
    assert Written(3) == Written(3)
    assert (Written(3).x, Written(3).y) == (3, 3)


def test_a_factory_makes_a_default_for_each_value() -> None:
    assert Point(1).marks is not Point(1).marks


def test_a_given_value_takes_the_place_of_the_factory() -> None:
    assert Point(1, marks=["a"]).marks == ["a"]


def test_a_frozen_value_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="Point is frozen"):
        Point(1).x = 2  # type: ignore[misc]  # the mistake is the point
    with pytest.raises(AttributeError, match="Point is frozen"):
        del Point(1).x


def test_a_value_has_no_room_for_other_attributes() -> None:
    assert not hasattr(Point(1), "__dict__")


def test_equal_contents_are_equal_and_hash_alike() -> None:
    assert Person("a") != Person("a")
    assert Named(first="a") == Named(first="a")
    assert hash(Named(first="a")) == hash(Named(first="a"))


def test_values_of_two_classes_are_never_equal() -> None:
    other: object = Other(1)

    assert Point(1) != other


def test_a_value_without_fields_equals_its_like() -> None:
    assert Nothing() == Nothing()


def test_keyword_fields_are_given_by_name() -> None:
    with pytest.raises(TypeError):
        Named("a")  # type: ignore[call-arg]  # the mistake is the point


def test_an_unfrozen_value_can_be_changed() -> None:
    counter = Counter()
    counter.count += 1

    assert counter.count == 1


def test_without_slots_a_property_can_be_cached() -> None:
    circle = Circle(2)

    assert circle.area is circle.area


def test_replace_copies_with_other_contents() -> None:
    assert replace(Point(1, 2), y=3) == Point(1, 3)


def test_a_value_shows_its_contents() -> None:
    assert repr(Point(1)) == "Point(x=1, y=0, marks=[])"


def test_fields_are_known_by_name() -> None:
    assert fields(Point) == ("x", "y", "marks")


def test_a_value_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(Point(1, 2, ["a"]))) == Point(1, 2, ["a"])


def test_a_value_can_be_taken_apart_by_match() -> None:
    match Point(1, 2):
        case Point(x, y):
            found = (x, y)

    assert found == (1, 2)
