"""Where users' own data is, and reading it: the same for everybody who needs it."""

from __future__ import annotations

import os
from pathlib import Path

from common.config import DataSection
from common.data.own.named_arrays import call_loader, read_npz
from common.data.own.parts import Part, Source
from common.data.own.pictures import classes_in, read_pictures
from common.data.own.tables import read_csv, read_parquet
from common.errors import DataError
from common.plugins import code_folder, find_function

KINDS = ("csv", "parquet", "npz", "folder")
SPLIT = ("train", "test")  # files or folders of a dataset that has both parts
CLIENT = "{client}"  # stands for a client's id in the path of local data


def is_own(dataset: str) -> bool:
    """Whether a dataset is a user's own."""
    return ":" in dataset


def is_function(dataset: str) -> bool:
    """Whether a dataset is what a user's function returns."""
    return is_own(dataset) and dataset.partition(":")[0] not in KINDS


def is_table(dataset: str) -> bool:
    """Whether a dataset is a table, whose numbers are standardised."""
    return dataset.partition(":")[0] in ("csv", "parquet")


def find_source(data: DataSection) -> Path:
    """Where a dataset is on this machine; for a function, the folder that it gets."""
    kind, _, place = data.dataset.partition(":")
    roots = [code_folder() or Path()]
    if given := os.environ.get("FEDBED_DATA"):
        roots.append(Path(given))
    if kind not in KINDS:
        return roots[-1].absolute()
    path = Path(place).expanduser()
    places = [root / path for root in roots] + [root / path.name for root in roots[1:]]
    found = next((one for one in places if one.exists()), None)
    if found is None:
        looked = ", ".join(dict.fromkeys(str(one.absolute()) for one in places))
        raise DataError(
            f"data.dataset is {data.dataset!r}, which is not there: {looked}; a path begins at "
            "the folder of the experiment, or on a board at FEDBED_DATA"
        )
    return found.absolute()


def find_local(data: DataSection, folder: Path, client_id: int) -> Path:
    """Where the data of one client is, in the folder that its board was given."""
    kind, _, place = data.dataset.partition(":")
    own = folder / str(client_id)
    if kind not in KINDS:
        return own if own.is_dir() else folder
    if CLIENT in place:
        places = [folder / place.replace(CLIENT, str(client_id))]
    else:
        places = [own / place, folder / place]
    found = next((one for one in places if one.exists()), None)
    if found is None:
        looked = " nor ".join(map(str, places))
        neither = "neither " if len(places) > 1 else "no "
        raise DataError(f"client {client_id} has no data: there is {neither}{looked}")
    return found


def read_source(data: DataSection, path: Path) -> Source:
    """All samples of a dataset, from where it was found."""
    kind = data.dataset.partition(":")[0]
    match kind:
        case "csv" | "parquet":
            return _split(path, kind)
        case "npz":
            return read_npz(path)
        case "folder":
            return _pictures(path, data.image_size)
        case _:
            function = find_function("data.dataset", data.dataset)
            return call_loader(data.dataset, function, path)


def _split(path: Path, kind: str) -> Source:
    read = read_csv if kind == "csv" else read_parquet
    if not path.is_dir():
        return Source((read(path),))
    files = [path / f"{name}.{kind}" for name in SPLIT]
    if not files[0].exists():
        raise DataError(f"{path} is a folder without {files[0].name}; expected a file, or both")
    parts = [read(file) for file in files if file.exists()]
    return Source(_alike(parts))


def _pictures(path: Path, side: int) -> Source:
    if set(classes_in(path)) != set(SPLIT):
        return Source((read_pictures(path, side),))
    return Source(_alike([read_pictures(path / name, side) for name in SPLIT]))


def _alike(parts: list[Part]) -> tuple[Part, ...]:
    for part in parts[1:]:
        if part.columns.keys() != parts[0].columns.keys():
            odd = sorted(part.columns.keys() ^ parts[0].columns.keys())[0]
            raise DataError(
                f"{part.where} and {parts[0].where} differ: only one has a column {odd!r}"
            )
    return tuple(parts)
