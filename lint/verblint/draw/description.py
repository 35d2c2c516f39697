"""The text alternative of a picture: which element leads to which."""

from verblint.draw.figures import DrawnContent, Figure
from verblint.draw.wrap import printable

# A description is read aloud as a whole, so it ends somewhere; the names in it are cut for the same reason.
_MOST_SENTENCES = 200
_LONGEST_NAME = 200


def kind_in_words(figure: Figure) -> str:
    """Return what a figure is, in plain words: timer boundary event, service task."""
    words = _words(figure.kind)
    if figure.node is not None and figure.node.is_event and figure.symbol:
        words = f"{_words(figure.symbol)} {words}"
    if figure.is_event_scope:
        words = "event subprocess"
    return words.replace("sub process", "subprocess").replace(" reference", "").replace("participant", "pool")


def name_in_words(figure: Figure) -> str:
    """Return the name of a figure, or its id, or what it is."""
    name = " ".join(printable(figure.name[:_LONGEST_NAME]).split()) or printable(figure.id[:_LONGEST_NAME])
    return name or kind_in_words(figure)


def title_of(content: DrawnContent) -> str:
    """Return what the picture shows: the names of its processes."""
    named = [name_in_words(figure) for figure in content.processes if figure.kind == "process"]
    return ", ".join(named[:5]) or "An empty model"


def describe(content: DrawnContent) -> str:
    """Return one sentence for each element of the flow, in the order of the file."""
    nodes = [figure for figure in content.figures if figure.is_flow_node and figure.box is not None]
    targets: dict[str, list[str]] = {}
    for line in content.lines:
        target = content.find(line.target)
        if line.kind == "sequenceFlow" and target is not None:
            condition = f" ({' '.join(printable(line.name[:_LONGEST_NAME]).split())})" if line.name.strip() else ""
            targets.setdefault(line.source, []).append(name_in_words(target) + condition)
    sentences = [f"A BPMN diagram with {len(nodes)} element{'s' * (len(nodes) != 1)}."]
    for figure in nodes[:_MOST_SENTENCES]:
        sentence = f"{name_in_words(figure)}: {kind_in_words(figure)}"
        host = content.find(figure.host) if figure.is_boundary else None
        if host is not None:
            sentence += f" at {name_in_words(host)}"
        if figure.id in targets:
            sentence += f", leads to {', '.join(targets[figure.id][:10])}"
        sentences.append(sentence + ".")
    if len(nodes) > _MOST_SENTENCES:
        sentences.append(f"{len(nodes) - _MOST_SENTENCES} more elements.")
    return " ".join(sentences)


def _words(name: str) -> str:
    """Return a camel-case name as words."""
    return "".join(f" {sign.lower()}" if sign.isupper() else sign for sign in printable(name[:_LONGEST_NAME])).strip()
