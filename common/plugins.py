"""Users' own functions, named in an experiment: `file.py:function` beside the experiment, or
`package.module:function`, in the same folder or installed.

The folder of the code is a setting of the process (`use_code`): that of the experiment file, or
where a board has the code. It comes last on the path, so that nothing in it hides anything.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, ModuleType

from common.errors import ConfigError, FedbedError

OURS = ("broker", "common", "fl_client", "fl_server")
_INSTALLED = {"site-packages", "dist-packages"}
_LONGEST = 500  # of a user's error message


@dataclass(slots=True)
class _Code:
    """Where this process finds users' code, and where what it has imported lies."""

    folder: Path | None = None
    places: set[Path] = field(default_factory=set)


@functools.cache  # made once
def _code() -> _Code:
    return _Code()


def use_code(folder: Path | None) -> None:
    """Find users' code in this folder from now on, and forget what another one had."""
    code, folder = _code(), folder and folder.absolute()
    if folder == code.folder:
        return
    if code.folder is not None:
        for name, module in list(sys.modules.items()):
            if _lies_in(code.folder, getattr(module, "__file__", None)):
                del sys.modules[name]
        if str(code.folder) in sys.path:
            sys.path.remove(str(code.folder))
    code.folder = folder
    code.places.clear()
    importlib.invalidate_caches()
    if folder is not None and str(folder) not in sys.path:
        sys.path.append(str(folder))


def code_folder() -> Path | None:
    """Where this process finds users' code."""
    return _code().folder


def beside(path: str) -> Path:
    """A file that an experiment names: a relative path begins at the experiment's folder."""
    return (_code().folder or Path()) / Path(path).expanduser()


def find_function(key: str, name: str, place: str = "") -> Callable[..., object]:
    """The function that the setting `key` calls `name`; it is at `place`, or at its name."""
    what, (source, _, attribute) = f"{key} is {name!r}", (place or name).rpartition(":")
    if not source or not attribute:
        raise ConfigError(f"{what}; expected file.py:function or module:function")
    if source.endswith(".py"):
        module = _of_file(what, source)
    else:
        module = _of_name(what, source, None if place else _candidate(source))
    function: object = getattr(module, attribute, None)
    if function is None:
        near = difflib.get_close_matches(attribute, _functions(module), n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"{what}, but {source} has no {attribute!r}{hint}")
    if not callable(function):
        raise ConfigError(f"{what}, which is not a function")
    return function


def _functions(module: ModuleType) -> list[str]:
    return [name for name, value in vars(module).items() if callable(value)]


def _of_file(what: str, source: str) -> ModuleType:
    """The module in a file of the code folder, whatever other module has its name."""
    path = file_of(what, source)
    name = "own_code." + ".".join(Path(source).with_suffix("").parts)
    known = sys.modules.get(name)
    if known is not None and known.__file__ == str(path):
        return known
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, "a file whose name ends with .py is a module"
    assert spec.loader is not None, "a file has a loader"
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    _code().places.add(path)
    try:
        with user_errors(what):
            spec.loader.exec_module(module)
    except ConfigError:
        del sys.modules[name]
        raise
    return module


def file_of(what: str, source: str) -> Path:
    """The file of the code folder that a setting names."""
    folder = _code().folder
    if folder is None:
        raise ConfigError(
            f"{what}, but it is not known where {source} is; a board is told by "
            "'fl-client run --code FOLDER'"
        )
    path = folder / source
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ConfigError(f"{what}, which is outside of {folder}; expected a file in it")
    if not path.is_file():
        raise ConfigError(f"{what}, but there is no {source} in {folder}")
    return path


def _of_name(what: str, source: str, here: Path | None) -> ModuleType:
    """The module of a name: `here`, in the code folder, or installed."""
    try:
        with user_errors(what, but=ModuleNotFoundError):
            module = importlib.import_module(source)
    except ModuleNotFoundError as error:
        if not f"{source}.".startswith(f"{error.name}."):  # something that the module imports
            raise ConfigError(f"{what}: {explain(error)}") from error
        if here is not None and not _is_at(here, source):
            raise ConfigError(f"{what}, {_hidden(source, here)}") from error
        where = f"in {_code().folder} or " if _code().folder else ""
        raise ConfigError(f"{what}, but no module {source} is {where}installed") from error
    if here is not None and not _is_at(here, source):
        raise ConfigError(f"{what}, {_hidden(source, here)}")
    file = getattr(module, "__file__", None)
    if file is not None and source.partition(".")[0] not in OURS:
        _code().places.add(_root_of(source, Path(file)))
    return module


def _is_at(here: Path, source: str) -> bool:
    """Whether the top-level module that was imported is the one in the code folder."""
    top = sys.modules.get(source.partition(".")[0])
    files = [getattr(top, "__file__", None), *getattr(top, "__path__", ())]
    return top is None or any(file and Path(file).is_relative_to(here) for file in files)


def _hidden(source: str, here: Path) -> str:
    top = source.partition(".")[0]
    found = getattr(sys.modules.get(top), "__file__", None) or f"another {top}"
    return (
        f"but {here} has the name of {found}; rename yours"
        + (f", or write {here.name}:..." if here.is_file() else "")
    )  # fmt: skip


def _candidate(source: str) -> Path | None:
    """What the code folder has under the name of a top-level module, if that is not ours."""
    folder, top = _code().folder, source.partition(".")[0]
    if folder is None or folder.resolve() == Path(__file__).resolve().parents[1]:
        return None
    places = (folder / top, folder / f"{top}.py")
    return next((place for place in places if place.is_file() or any(place.glob("*.py"))), None)


def _root_of(source: str, file: Path) -> Path:
    """The folder of a top-level package, or the file of a top-level module."""
    levels = source.count(".") + (file.name == "__init__.py")
    return file if levels == 0 else file.parents[levels - 1]


def _lies_in(folder: Path, file: str | None) -> bool:
    """Whether a file is code of this folder: not installed below it, and not fedbed itself."""
    if file is None or not Path(file).is_relative_to(folder):
        return False
    parts = Path(file).relative_to(folder).parts
    ours = folder.resolve() == Path(__file__).resolve().parents[1]
    return not (_INSTALLED & {*parts} or (ours and parts[0] in OURS))


# errors in users' code


@contextmanager
def user_errors(
    what: str,
    function: Callable[..., object] | None = None,
    *,
    kind: type[FedbedError] = ConfigError,
    but: type[Exception] = FedbedError,
) -> Iterator[None]:
    """Whatever a user's code raises here becomes one line with its place."""
    try:
        yield
    except (FedbedError, but):
        raise
    except Exception as error:
        raise kind(f"{what}: {explain(error, function)}") from error


def explain(error: BaseException, function: Callable[..., object] | None = None) -> str:
    """An exception as one line: what, and the last line of the user's code that led to it.

    If none did, because `function` returned something wrong, it is where that begins.
    """
    words = " ".join(str(error).split())
    text = f"{type(error).__name__}: {words[:_LONGEST]}" if words else type(error).__name__
    if isinstance(error, SyntaxError) and error.filename:
        return f"SyntaxError: {error.msg} ({_shown(error.filename)}:{error.lineno})"
    frames = [
        (frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)
    ]
    own = [frame for frame in frames if _is_users(frame[0])]
    code: CodeType | None = getattr(function, "__code__", None)
    if not own and code is not None and _is_users(code.co_filename):
        own = [(code.co_filename, code.co_firstlineno)]
    if not (own or frames):
        return text
    file, line = (own or frames)[-1]
    return f"{text} ({_shown(file)}:{line})"


def names_users(error: BaseException) -> bool:
    """Whether a user's code led to an error."""
    return any(_is_users(frame.filename) for frame in traceback.extract_tb(error.__traceback__))


def is_users(function: Callable[..., object]) -> bool:
    """Whether a function is a user's own."""
    code: CodeType | None = getattr(function, "__code__", None)
    return code is not None and _is_users(code.co_filename)


def _is_users(file: str) -> bool:
    code = _code()
    if code.folder is not None and _lies_in(code.folder, file):
        return True
    return any(Path(file).is_relative_to(place) for place in code.places)


def _shown(file: str) -> str:
    folder = _code().folder
    if folder is not None and _lies_in(folder, file):
        return str(Path(file).relative_to(folder))
    return Path(file).name
