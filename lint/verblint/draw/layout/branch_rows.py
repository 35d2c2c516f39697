"""Give the nodes of a flow their rows: the longest way is straight, branches are below, short ones nearer."""

from bisect import bisect_right
from collections.abc import Collection, Sequence

from verblint.draw.layout.layers import Layers

# A row further away is no better than a new one; without a limit the search would take quadratic time.
_MOST_TRIES = 48


class Spans:
    """Which parts of rows are taken. A part can be taken again by the same owner."""

    def __init__(self) -> None:
        self._rows: dict[int, list[tuple[int, int, int]]] = {}

    def is_free(self, row: int, first: int, last: int, owner: int = -1) -> bool:
        """Return whether no other owner has something between two columns, both included."""
        return all(span[2] == owner != -1 for span in self._overlaps(row, first, last))

    def take(self, row: int, first: int, last: int, owner: int = -1) -> None:
        """Take a part that is free."""
        spans = self._rows.setdefault(row, [])
        touched = self._overlaps(row, first, last)
        for span in touched:
            spans.remove(span)
        first, last = min([first, *(span[0] for span in touched)]), max([last, *(span[1] for span in touched)])
        spans.insert(bisect_right(spans, (first, last, owner)), (first, last, owner))

    def _overlaps(self, row: int, first: int, last: int) -> list[tuple[int, int, int]]:
        spans = self._rows.get(row, [])
        at = bisect_right(spans, (first,)) - 1
        found = []
        if at >= 0 and spans[at][1] >= first:
            found.append(spans[at])
        at += 1
        while at < len(spans) and spans[at][0] <= last:
            found.append(spans[at])
            at += 1
        return found


class Rows:
    """The rows of nodes, counted for each lane on its own."""

    def __init__(self, layers: Layers, lanes: Sequence[int], lane_count: int, lower: Collection[int]) -> None:
        """Place every node; flows in `lower` leave their source downwards and never continue its row."""
        self._layers = layers
        self._lanes = lanes
        self._lower = lower
        self._spans = [Spans() for _ in range(lane_count)]
        self.counts = [0] * lane_count
        self._rows: list[int] = [-1] * len(lanes)

    def place_all(self, nodes: Sequence[int]) -> None:
        """Place the nodes that have flows, in the order of the roots."""
        wanted = set(nodes)
        for root in self._layers.roots:
            if root in wanted and self._rows[root] < 0:
                self._place_tree(root)

    def place_beside(self, node: int, host: int) -> None:
        """Place a node that has no flows in the column of another, below it."""
        self._layers.columns[node] = column = self._layers.columns[host]
        base = self._rows[host] + 1 if self._lanes[node] == self._lanes[host] else 0
        self._rows[node] = self._take(self._lanes[node], base, column, column)

    def row(self, node: int) -> int:
        """Return the row of a node within its lane."""
        return self._rows[node]

    def _place_tree(self, root: int) -> None:
        """Place a node and all that follow it: first its own row, then the branches, the last one first."""
        stack = [(root, -1)]
        while stack:
            start, parent = stack.pop()
            if self._rows[start] >= 0:
                continue
            way = self._way(start)
            self._place_way(way, parent)
            for node in way:
                branches = [index for index in self._layers.ahead(node) if index not in self._lower]
                # Downward flows come last, the rightmost first, so that they do not cross.
                branches += [index for index in self._layers.ahead(node) if index in self._lower][::-1]
                stack += [(self._layers.flows[index][1], node) for index in reversed(branches)]

    def _way(self, start: int) -> list[int]:
        """Return the longest way from a node through nodes that have no row yet, in its lane."""
        way, taken = [start], {start}
        while True:
            following = [
                target
                for index in self._layers.ahead(way[-1])
                if index not in self._lower
                and self._rows[target := self._layers.flows[index][1]] < 0
                and self._lanes[target] == self._lanes[start]
                and target not in taken
            ]
            if not following:
                return way
            way.append(max(following, key=lambda node: self._layers.heights[node]))
            taken.add(way[-1])

    def _place_way(self, way: list[int], parent: int) -> None:
        columns, lane = self._layers.columns, self._lanes[way[0]]
        exits = [self._layers.flows[index][1] for index in self._layers.ahead(way[-1])]
        last = max(columns[way[-1]], *(columns[node] for node in exits), columns[way[0]])
        first = columns[way[0]]
        if parent >= 0:
            first = min(first, columns[parent])
            base = self._rows[parent] + 1 if self._lanes[parent] == lane else 0
        else:
            joined = [self._rows[node] for node in exits if self._rows[node] >= 0 and self._lanes[node] == lane]
            base = min(joined) + 1 if joined else self.counts[lane]
        row = self._take(lane, base, first, last)
        for node in way:
            self._rows[node] = row

    def _take(self, lane: int, base: int, first: int, last: int) -> int:
        """Return the nearest row from a base downwards with room between two columns, and take the room."""
        spans = self._spans[lane]
        near = range(base, min(base + _MOST_TRIES, self.counts[lane]))
        row = next((row for row in near if spans.is_free(row, first, last)), max(base, self.counts[lane]))
        spans.take(row, first, last)
        self.counts[lane] = max(self.counts[lane], row + 1)
        return row
