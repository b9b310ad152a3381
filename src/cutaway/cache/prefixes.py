"""Maps published pages to prefixes: a tree with one node per page of tokens.

A full page is shared by any number of requests. The part-filled last page of a request that ended is a tail: one later
request may take it over and continue writing in it.

A node is identified by its parent and its tokens, which are compared token by token, so two different prefixes are
never confused; a root is identified by everything else that the keys and values depend on (adapter, salt). A node has
one page per KV group, or -1 if that group has none (never written, or evicted).
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterator, Sequence
from itertools import chain
from weakref import WeakValueDictionary

from cutaway.cache.prefix_misses import Evicted, Label, PrefixBreak, find_break, shared_length
from cutaway.cache.snapshot import Published


class Node:
    """`tokens` are in `pages[group]`, if the tokens before them are those of `parent`. label: its root's key and a hash
    of all tokens, under which evicted nodes are remembered; no decision depends on it."""

    __slots__ = ("__weakref__", "children", "label", "pages", "parent", "tails", "tokens")

    def __init__(self, parent: Node | None, tokens: tuple[int, ...], groups: int, key: Hashable = None) -> None:
        self.parent = parent
        self.label: Label = (key, 0) if parent is None else (parent.label[0], hash((parent.label[1], tokens)))
        self.tokens = tokens
        self.pages = [-1] * groups
        self.children: dict[tuple[int, ...], Node] = {}
        self.tails: dict[tuple[int, ...], Node] = {}


class PrefixTree:
    """Finds the published pages of a prefix. The pools manage who holds them and for how long."""

    def __init__(self, groups: int, page_size: int) -> None:
        self._groups = groups
        self._page_size = page_size
        # A root lives as long as a node under it or a request that holds it: the number of salts is unlimited.
        self._roots: WeakValueDictionary[Hashable, Node] = WeakValueDictionary()
        self._evicted = Evicted()
        self._owner: list[dict[int, Node]] = [{} for _ in range(groups)]  # per group: published page -> its node

    def root(self, key: Hashable) -> Node:
        """The root of prefixes with this key. It is valid as long as the caller keeps it."""
        root = self._roots.get(key)
        if root is None:
            root = self._roots[key] = Node(None, (), self._groups, key)
        return root

    def walk(self, key: Hashable, tokens: Sequence[int]) -> Iterator[Node]:
        """The known nodes of the prefix, from its first page on. Some of their pages may be missing."""
        node = self._roots.get(key)
        for start in range(0, len(tokens) - self._page_size + 1, self._page_size):
            if node is None:
                return
            node = node.children.get(tuple(tokens[start : start + self._page_size]))
            if node is not None:
                yield node

    def extend(self, parent: Node, tokens: tuple[int, ...]) -> Node:
        """The node after `parent` for a page of tokens, or for a tail if they are fewer; created if necessary."""
        assert 0 < len(tokens) <= self._page_size
        siblings = parent.children if len(tokens) == self._page_size else parent.tails
        node = siblings.get(tokens)
        if node is None:
            node = siblings[tokens] = Node(parent, tokens, self._groups)
        return node

    def longest_tail(self, parent: Node, tokens: Sequence[int]) -> tuple[Node | None, int]:
        """The tail after `parent` that has the longest common beginning with `tokens`, and its length."""
        best, most = None, 0
        for node in parent.tails.values():
            common = shared_length(node.tokens, tokens)
            if common > most and -1 not in node.pages:
                best, most = node, common
        return best, most

    def find_break(self, node: Node, tokens: Sequence[int], found: int, *, lacking: bool) -> PrefixBreak | None:
        """Where and why the match of `tokens` ended: `found` of them, up to `node`. lacking: the next node is known,
        but one of its pages, or of the window before it, is no longer there."""
        if lacking:
            return PrefixBreak(found, tokens[found], "evicted")
        live = chain(reversed(node.children), reversed(node.tails))
        return find_break(tokens, found, live, self._evicted.after(node.label), self._page_size)

    def remember(self, parent: Node, tokens: tuple[int, ...]) -> None:
        """`tokens` were written after `parent` and can no longer be found."""
        self._evicted.add(parent.label, tokens)

    def forget(self) -> None:
        """Forget the evicted nodes."""
        self._evicted.clear()

    def attach(self, node: Node, group: int, page: int) -> None:
        """The page contains the node's tokens. A node has at most one page per group."""
        assert node.pages[group] == -1 and page not in self._owner[group]
        node.pages[group] = page
        self._owner[group][page] = node

    def detach(self, group: int, page: int) -> None:
        """The page has other contents from now on. Nodes without pages and children are removed."""
        node: Node | None = self._owner[group].pop(page)
        assert node is not None
        node.pages[group] = -1
        while node is not None and node.parent is not None and not node.children and not node.tails:
            if max(node.pages) != -1:
                return
            parent = node.parent
            self.remember(parent, node.tokens)
            for siblings in (parent.children, parent.tails):
                if siblings.get(node.tokens) is node:
                    del siblings[node.tokens]
            node = parent

    def published(self, group: int) -> tuple[Published, tuple[Hashable, ...]]:
        """The published pages of a group, and the keys that they were written under."""
        found = Published(array("i"), array("i"), array("i"), array("q"), array("i"))
        keys: dict[Hashable, int] = {}
        starts: dict[Node, int] = {}
        for page, node in self._owner[group].items():
            found.page.append(page)
            found.position.append(_start(node, starts))
            found.tokens.append(len(node.tokens))
            found.prefix.append(node.label[1])
            found.owner.append(keys.setdefault(node.label[0], len(keys)))
        return found, tuple(keys)

    def pages(self, group: int) -> set[int]:
        """All published pages of a group (for the ledger check)."""
        return set(self._owner[group])


def _start(node: Node, known: dict[Node, int]) -> int:
    """Position of the node's first token. known: positions computed before; added to."""
    path: list[Node] = []
    while node not in known and node.parent is not None:
        path.append(node)
        node = node.parent
    start = known[node] + len(node.tokens) if node in known else 0
    for node in reversed(path):
        known[node] = start
        start += len(node.tokens)
    return known[path[0]] if path else start - len(node.tokens)
