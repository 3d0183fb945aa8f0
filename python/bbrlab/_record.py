"""Tables of a document, with attributes."""

# SPDX-License-Identifier: Apache-2.0 OR MIT

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar


class Record(Mapping[str, Any]):
    """A table of the document, whose keys are attributes too."""

    __slots__ = ("_table",)
    #: Classes of the tables below, by their keys; others are plain records.
    _kinds: ClassVar[dict[str, type[Any]]] = {}

    def __init__(self, table: dict[str, Any]) -> None:
        self._table = table

    def __getitem__(self, key: str) -> Any:
        return _wrapped(self._table[key], self._kinds.get(key, Record))

    def __getattr__(self, key: str) -> Any:
        if key.startswith("__"):
            raise AttributeError(key)
        try:
            return _wrapped(self._table[key], self._kinds.get(key, Record))
        except KeyError:
            raise AttributeError(f"no {key!r}; there are {', '.join(self._table)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._table]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._table!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self._table,))


def _wrapped(value: Any, kind: type[Any]) -> Any:
    if isinstance(value, dict):
        return kind(value)
    if isinstance(value, list):
        return [_wrapped(one, kind) for one in value]
    return value
