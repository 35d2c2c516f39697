"""Elements of one name: what they have in their attributes, asked once for all of them."""

from verblint.bpmn.element import BPMN, ZEEBE, key_of, name_of
from verblint.bpmn.element_group import ElementGroup
from verblint.bpmn.reader import read

CONTENT = f"""<definitions xmlns="{BPMN}" xmlns:zeebe="{ZEEBE}">
  <task id="a" name="first" zeebe:kind="x"/>
  <task id="b" name=""/>
  <task id="c"/>
  <text/>
</definitions>""".encode()


def alike(local: str) -> ElementGroup:
    return read(CONTENT).document.elements[(BPMN, local)]


def test_they_stand_in_document_order() -> None:
    assert [element.id for element in alike("task")] == ["a", "b", "c"]


def test_the_keys_are_those_that_any_of_them_has() -> None:
    assert alike("task").keys == {"id", "name", key_of("kind", ZEEBE)}
    assert alike("text").keys == set()


def test_a_column_has_the_values_of_those_that_have_one() -> None:
    tasks = alike("task")

    assert tasks.column("id") == ["a", "b", "c"]
    assert tasks.column("name") == tasks.column("name") == ["first", ""]
    assert tasks.column("kind") == []
    assert alike("text").column("id") == []


def test_an_empty_attribute_is_not_one_that_they_have() -> None:
    tasks = alike("task")

    assert (tasks.all_have("id"), tasks.all_have("name"), tasks.all_have("kind")) == (True, False, False)


def test_a_key_is_the_local_name_behind_its_namespace() -> None:
    assert (key_of("kind"), name_of("kind")) == ("kind", ("", "kind"))
    assert name_of(key_of("kind", ZEEBE)) == (ZEEBE, "kind")
