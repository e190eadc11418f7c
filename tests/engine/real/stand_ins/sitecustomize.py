"""Stands in for two modules that SGLang imports at its start and never calls on a CPU: torchvision and sgl_kernel.

Any attribute of them exists and is callable; anything real of that name wins, because this finder is asked last.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types

_ABSENT = frozenset(("torchvision", "sgl_kernel"))


class _Thing:
    """Whatever was asked for: called, decorated with, subclassed or looked into."""

    def __init__(self, *_args, **_keywords):
        return

    def __call__(self, *args, **keywords):
        return args[0] if len(args) == 1 and not keywords and callable(args[0]) else _Thing()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Thing()

    def __mro_entries__(self, _bases):
        return (object,)


class _NamedMembers(type):
    """Classes whose missing attributes are named values, as the members of an enumeration are."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return f"{cls.__name__}.{name}"


class _Module(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        whole = f"{self.__name__}.{name}"
        if whole in sys.modules:
            return sys.modules[whole]
        if name[:1].isupper():
            return _NamedMembers(name, (_Thing,), {"__getattr__": _Thing.__getattr__})
        return _Thing()


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, fullname, _path=None, _target=None):
        if fullname.partition(".")[0] not in _ABSENT:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec):
        module = _Module(spec.name)
        module.__path__ = []
        module.__version__ = "0.0.0"
        return module

    def exec_module(self, _module):
        return


sys.meta_path.append(_Finder())
