"""Every public name has a docstring, and its examples hold: the reference is made of them."""

# SPDX-License-Identifier: Apache-2.0 OR MIT

import doctest
import inspect

import pytest

import bbrlab
import bbrlab.ab
import bbrlab.aioquic
import bbrlab.gym

MODULES = [bbrlab, bbrlab.ab, bbrlab.aioquic, bbrlab.gym]


def public():
    for module in MODULES:
        yield module.__name__, module
        names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
        for name in names:
            thing = getattr(module, name)
            if not (inspect.isclass(thing) or inspect.isroutine(thing)) or not str(thing.__module__).startswith("bbrlab"):
                continue
            yield f"{module.__name__}.{name}", thing
            for member, value in sorted(vars(thing).items()) if inspect.isclass(thing) else ():
                if not member.startswith("_") and (
                    callable(value) or isinstance(value, property) or inspect.isdatadescriptor(value)
                ):
                    yield f"{module.__name__}.{name}.{member}", value


@pytest.mark.parametrize(("name", "thing"), list(public()), ids=lambda value: value if isinstance(value, str) else "")
def test_a_public_name_has_a_docstring(name, thing):
    doc = inspect.getdoc(thing)
    assert doc and doc.strip(), name


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_examples_give_what_the_reference_shows(module):
    assert doctest.testmod(module).failed == 0
