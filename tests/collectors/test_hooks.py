"""Hooks set on an engine's functions tell what happens, change nothing, and never fail it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collectors.programs import recorded, run_program

ENGINE = """
import contextlib

LOG = []

class Worker:
    def run(self, number):
        LOG.append(f"run {number}")
        return number + 1

@contextlib.contextmanager
def context():
    LOG.append("in")
    yield 7
    LOG.append("out")
"""

HOOKED = """
sys.path.insert(0, os.environ["ENGINE"])
from _bubblescope_inject.hooks import Hook, after, around, around_context, before, install
told = []
"""


@pytest.fixture
def engine(tmp_path: Path) -> dict[str, str]:
    """The environment of a program that can import a made-up engine."""
    folder = tmp_path / "engine"
    folder.mkdir()
    (folder / "small_engine.py").write_text(ENGINE)
    return {"ENGINE": str(folder)}


def test_a_hook_is_set_when_its_module_is_imported_and_the_module_is_not_imported_for_it(
    tmp_path: Path, engine: dict[str, str]
) -> None:
    process = recorded(
        HOOKED
        + """
hook = Hook("run", "small_engine", ("Worker.gone", "Worker.run"), before(lambda *args: told.append(args[1:])))
install([hook])
assert "small_engine" not in sys.modules
import small_engine
assert small_engine.Worker().run(4) == 5
assert told == [(4,)] and small_engine.LOG == ["run 4"]
""",
        tmp_path,
        **engine,
    )
    assert process.facts["hook:run"][1] == '"small_engine:Worker.run"'


def test_two_may_watch_the_same_module(tmp_path: Path, engine: dict[str, str]) -> None:
    done = run_program(
        HOOKED
        + """
from _bubblescope_inject.imports import after_import
after_import({"small_engine": lambda module: told.append("first")})
after_import({"small_engine": lambda module: told.append("second")})
import small_engine
print(sorted(told))
""",
        tmp_path,
        **engine,
    )
    assert (done.stdout, done.stderr) == ("['first', 'second']\n", "")


def test_a_module_that_is_there_already_is_hooked_at_once(tmp_path: Path, engine: dict[str, str]) -> None:
    recorded(
        HOOKED
        + """
import small_engine
install([Hook("run", "small_engine", ("Worker.run",), around(lambda *_: lambda result: told.append(result)))])
assert small_engine.Worker().run(1) == 2
assert told == [2]
""",
        tmp_path,
        **engine,
    )


def test_a_context_is_what_lies_between_begin_and_end(tmp_path: Path, engine: dict[str, str]) -> None:
    recorded(
        HOOKED
        + """
import small_engine
def begin():
    small_engine.LOG.append("begin")
    return lambda _: small_engine.LOG.append("end")
install([Hook("context", "small_engine", ("context",), around_context(begin))])
with small_engine.context() as value:
    small_engine.LOG.append(value)
assert small_engine.LOG == ["begin", "in", 7, "out", "end"], small_engine.LOG
""",
        tmp_path,
        **engine,
    )


def test_a_hook_that_fails_is_counted_and_the_engine_does_not_notice(
    tmp_path: Path, engine: dict[str, str]
) -> None:
    process = recorded(
        HOOKED
        + """
import small_engine
install([Hook("run", "small_engine", ("Worker.run",), around(lambda *_: 1 / 0))])
assert small_engine.Worker().run(1) == 2
""",
        tmp_path,
        **engine,
    )
    assert process.lost["refused"] == 1


def test_arguments_may_have_any_name(tmp_path: Path, engine: dict[str, str]) -> None:
    names = ["self", "look", "observe", "begin", "function", "args", "kwargs", "hooked"]
    recorded(
        HOOKED
        + f"""
from types import ModuleType
engine = sys.modules["other_engine"] = ModuleType("other_engine")
engine.run = lambda **given: given
look = lambda *args, **given: told.append(given)
install([Hook("run", "other_engine", ("run",), before(look))])
given = dict.fromkeys({names}, 1)
assert engine.run(**given) == given and told == [given]
""",
        tmp_path,
        **engine,
    )


def test_what_the_engine_raises_goes_through(tmp_path: Path, engine: dict[str, str]) -> None:
    done = run_program(
        HOOKED
        + """
import small_engine
install([Hook("run", "small_engine", ("Worker.run",), around(lambda *_: lambda result: told.append(result)))])
try:
    small_engine.Worker().run("no number")
except TypeError:
    assert told == []
    sys.exit(7)
""",
        tmp_path,
        **engine,
    )
    assert done.returncode == 7


def test_a_missing_function_leaves_no_fact(tmp_path: Path, engine: dict[str, str]) -> None:
    process = recorded(
        HOOKED
        + """
import small_engine
install([Hook("run", "small_engine", ("Worker.gone",), before(lambda *_: None))])
recorder.fact("here", 1)
""",
        tmp_path,
        **engine,
    )
    assert list(process.facts) == ["here"]


def test_a_function_stays_of_the_kind_that_it_is(tmp_path: Path, engine: dict[str, str]) -> None:
    """Static, of the class, or asynchronous; what is no function is left alone."""
    process = recorded(
        HOOKED
        + """
import asyncio, inspect
from types import ModuleType

class Worker:
    @staticmethod
    def static(number): return number
    @classmethod
    def of_class(cls, number): return cls, number
    async def later(self, number): return self, number
    inner = type("Inner", (), {})
    number = 7
    @property
    def computed(self): raise RuntimeError
    plain = len

class Heir(Worker):
    pass

class Raises(type):
    def __getattr__(cls, name): raise RuntimeError(name)

engine = sys.modules["other_engine"] = ModuleType("other_engine")
engine.Heir, engine.Raising = Heir, Raises("Raising", (), {})
names = ("static", "of_class", "later", "inner", "number", "computed", "gone")
observe = before(lambda *args: told.append(args[-1]))
install([Hook("raising", "other_engine", ("Raising.run",), observe)]
        + [Hook(name, "other_engine", (f"Heir.{name}",), observe) for name in names])

heir = Heir()
assert heir.static(1) == Heir.static(1) == 1
assert heir.of_class(2) == Heir.of_class(2) == (Heir, 2)
assert inspect.iscoroutinefunction(Heir.later)
assert asyncio.run(heir.later(3)) == (heir, 3)
assert told == [1, 1, 2, 2, 3]
assert Heir.inner is Worker.inner and Heir.number == 7 and Heir.computed is Worker.computed
assert Worker.static(4) == 4 and told[-1] == 3  # only the heir's is watched
""",
        tmp_path,
        **engine,
    )
    hooked = {name for name in process.facts if name.startswith("hook:")}
    assert hooked == {"hook:static", "hook:of_class", "hook:later"}
    assert process.lost["refused"] == 1


def test_a_context_is_the_engine_s_own_in_all_else(tmp_path: Path, engine: dict[str, str]) -> None:
    recorded(
        HOOKED
        + """
from types import ModuleType

class Context:
    depth = 3
    def __enter__(self): return self
    def __exit__(self, *error): return True

engine = sys.modules["other_engine"] = ModuleType("other_engine")
engine.context, engine.nothing = Context, lambda: None
engine.made = lambda: Context()
install([Hook(name, "other_engine", (name,), around_context(lambda: told.append))
         for name in ("made", "nothing")])
assert engine.nothing() is None
assert engine.made().depth == 3
with engine.made() as value:
    1 / 0  # which this context forgives
assert type(value) is Context and told == []
""",
        tmp_path,
        **engine,
    )


def test_finders_and_loaders_of_all_kinds_import_what_is_watched(
    tmp_path: Path, engine: dict[str, str]
) -> None:
    """A finder of the old kind, modules of one zip file, a watch that is no longer in place."""
    done = run_program(
        HOOKED
        + """
import importlib.util, zipfile
from _bubblescope_inject.imports import after_import

archive = os.path.join(os.environ["ENGINE"], "packed.zip")
with zipfile.ZipFile(archive, "w") as file:
    for name in ("first_packed", "second_packed", "third_packed"):
        file.writestr(name + ".py", "")
sys.path.insert(0, archive)
names = ("small_engine", "first_packed", "third_packed")
after_import({name: lambda module: told.append(module.__name__) for name in names})
watch = sys.meta_path[0]
sys.meta_path.insert(1, type("Old", (), {"find_module": lambda *_: None})())
import first_packed, second_packed, third_packed
assert told == ["first_packed", "third_packed"], told
del sys.meta_path[:2]
assert watch.find_spec("small_engine", None) is None
import small_engine
print("imported")
""",
        tmp_path,
        **engine,
    )
    assert (done.stdout, done.stderr) == ("imported\n", "")
