"""A stand-in for SGLang's kernels, which no package has for CPUs.

Whatever is imported from it, or from a module within, is there, and cannot be called: SGLang on a CPU
names the kernels but runs torch's operators.
"""

import importlib.abc
import importlib.machinery
import sys
import types

__version__ = "9.9.9"
__path__ = []


class _Absent:
    """A kernel, or a type that kernels know."""

    def __init__(self, name):  # type: ignore[no-untyped-def]
        self.__name__ = name

    def __getattr__(self, name):  # type: ignore[no-untyped-def]
        if name.startswith("__"):
            raise AttributeError(name)
        return _Absent(f"{self.__name__}.{name}")

    def __call__(self, *_, **__):  # type: ignore[no-untyped-def]
        raise NotImplementedError(f"{self.__name__} is a stand-in: this SGLang has no kernels")


class _Module(types.ModuleType):
    def __getattr__(self, name):  # type: ignore[no-untyped-def]
        if name.startswith("__"):
            raise AttributeError(name)
        return _Absent(f"{self.__name__}.{name}")


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):  # type: ignore[no-untyped-def]
        if name.startswith(f"{__name__}."):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):  # type: ignore[no-untyped-def]
        return _Module(spec.name)

    def exec_module(self, module):  # type: ignore[no-untyped-def]
        pass


sys.modules[__name__].__class__ = _Module
sys.meta_path.append(_Finder())
