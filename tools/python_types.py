#!/usr/bin/env python3
"""Writes python/bbrlab/_figures.py, the types of a result's figures, from crates/sim/src/record/result.rs.

usage: python_types.py [--check]      --check: writes nothing, and exits 1 if the file is not what it would write
"""

# SPDX-License-Identifier: Apache-2.0 OR MIT

import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]
SOURCE = ROOT / "crates/sim/src/record/result.rs"
TARGET = ROOT / "python/bbrlab/_figures.py"
# Classes that have another name in Python.
NAMES = {"RunResult": "Run", "FlowResult": "Flow"}
PLAIN = {"f64": "float", "u64": "int", "u32": "int", "usize": "int", "bool": "bool", "String": "str", "serde_json::Value": "Record"}
HEAD = '''"""Types of a result's figures, made from crates/sim/src/record/result.rs by tools/python_types.py.

Rates are in bit/s, times in seconds unless the name ends in `_ms`, volumes in bytes, ratios from 0 to 1.
"""

# SPDX-License-Identifier: Apache-2.0 OR MIT

from __future__ import annotations

from typing import Any, ClassVar

from bbrlab._record import Record
'''


def python(kind):
    """The Python type of a Rust type, and the class of its tables, if it has any."""
    if inner := re.fullmatch(r"Option<(.*)>", kind):
        name, of = python(inner[1])
        return f"{name} | None", of
    if inner := re.fullmatch(r"Vec<(.*)>|\[(\w+); \d+\]", kind):
        name, of = python(inner[1] or inner[2])
        return f"list[{name}]", of
    if inner := re.fullmatch(r"Box<(.*)>", kind):
        return python(inner[1])
    if kind.startswith("BTreeMap<"):
        return "Record", None
    if kind in PLAIN:
        return PLAIN[kind], None
    name = NAMES.get(kind, kind)
    return name, name


def documented(lines, indent):
    """A docstring of lines of a Rust comment."""
    text = " ".join(line.strip().removeprefix("///").strip() for line in lines).replace("Null ", "None ").replace("null ", "None ")
    whole = f'{indent}"""{text}"""'
    if len(whole) <= 132:
        return whole
    wrapped = textwrap.wrap(text, 132 - len(indent) - 3)
    return "\n".join([f'{indent}"""{wrapped[0]}', *(indent + line for line in wrapped[1:]), f'{indent}"""'])


def listed(begin, brackets, items):
    """An assignment of these items, one a line if they do not fit into one."""
    whole = begin + brackets[0] + ", ".join(items) + brackets[1]
    if len(whole) <= 132:
        return whole
    indent = " " * (len(begin) - len(begin.lstrip()))
    return "\n".join([begin + brackets[0], *(f"{indent}    {item}," for item in items), indent + brackets[1]])


def classes(source):
    """The text of each class, those that others need first."""
    found = {}
    for doc, name, body in re.findall(r"((?:///.*\n)+)(?:#\[.*\n)*pub struct (\w+) \{\n([\s\S]*?)\n\}", source):
        fields = re.findall(r"((?: +///.*\n)+)(?: +#\[.*\n)* +pub (\w+): (.*),", body + "\n")
        lines, nested = [], {}
        for text, field, kind in fields:
            typed, of = python(kind)
            if of:
                nested[field] = of
            lines += [f"    {field}: {typed}", documented(text.splitlines(), "    ")]
        of = listed("    _kinds: ClassVar[dict[str, type[Any]]] = ", "{}", [f'"{field}": {cls}' for field, cls in nested.items()])
        head = [f"class {NAMES.get(name, name)}(Record):", documented(doc.splitlines(), "    "), "", "    __slots__ = ()"]
        if nested:
            head.append(of)
        found[NAMES.get(name, name)] = (set(nested.values()), "\n".join([*head, "", *lines]))
    while found:
        ready = [name for name, (needs, _) in found.items() if not needs & found.keys()]
        for name in ready:
            yield name, found.pop(name)[1]


def main():
    made = list(classes(SOURCE.read_text(encoding="utf-8")))
    names = listed("__all__ = ", "[]", [f'"{name}"' for name, _ in sorted(made)])
    text = HEAD + f"\n{names}\n" + "".join(f"\n\n{one}\n" for _, one in made)
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(text, encoding="utf-8")
    elif text != TARGET.read_text(encoding="utf-8"):
        print("python/bbrlab/_figures.py is out of date; run tools/python_types.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
