"""What the hooks of engines share: they are off without an injected libkernhes.so, and an error turns one off and is logged once."""

import importlib.abc
import importlib.util
import inspect
import logging
import os
import sys

from kernhes import _nvtx

_log = logging.getLogger("kernhes")


def wanted():
    """Whether this process has a shim that would hear the hooks, and the user did not turn them off."""
    return bool(_nvtx.path()) and os.environ.get("KERNHES_HOOKS", "1") != "0"


class Refused(Exception):
    """The engine is not as the hook knows it."""


def check_parameters(what, function, *known):
    """Raises Refused unless the names of a function's parameters are one of the known lists."""
    names = list(inspect.signature(function).parameters)
    if names not in [list(k) for k in known]:
        raise Refused(f"{what}({', '.join(names)}) is not known")


def field(of, name):
    """An attribute; raises Refused if it is missing."""
    try:
        return getattr(of, name)
    except AttributeError:
        raise Refused(f"{type(of).__name__} has no {name}") from None


class Hook:
    """One engine's hook."""

    def __init__(self, engine):
        self._engine, self._off = engine, False

    def guard(self, function, *arguments):
        """What a function returns; None if it raises, and from then on."""
        if self._off:
            return None
        try:
            return function(*arguments)
        except Exception as e:
            self._off = True
            _log.warning("kernhes: the hook for %s is off: %s. The engine goes on without it.", self._engine,
                         e if isinstance(e, Refused) else f"{type(e).__name__}: {e}")
            return None


class _Finder(importlib.abc.MetaPathFinder):
    """Calls a function with one module when that has been imported."""

    def __init__(self, name, then):
        self._name, self._then = name, then

    def find_spec(self, fullname, path=None, target=None):
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return None
        execute, then = spec.loader.exec_module, self._then

        def exec_module(module):
            execute(module)
            then(module)

        spec.loader.exec_module = exec_module
        return spec


def after_import(name, then):
    """Calls then(module) as soon as a module is there; it imports nothing itself. then must not raise."""
    if name in sys.modules:
        then(sys.modules[name])
    elif not any(isinstance(f, _Finder) and f._name == name for f in sys.meta_path):
        sys.meta_path.insert(0, _Finder(name, then))
