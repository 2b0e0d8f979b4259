from __future__ import annotations

import hashlib
import io
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from common.config import DataSection, Experiment
from common.data.datasets import load_dataset, require_dataset
from common.data.datasets.base import SamplePool
from common.data.datasets.plays import plays_in_text, plays_in_xml
from common.data.datasets.registry import ENTRIES
from common.data.datasets.shakespeare import ALPHABET, PlaysArchive, PlaysText, windows_of
from common.data.shards import ShardSet
from common.errors import ConfigError, DataError

SPEECH = [
    "To be, or not to be: that is the question:",
    "Whether 'tis nobler",
    "in the mind to suffer",
]
LONG = " ".join(SPEECH)
XML = """<?xml version="1.0"?>
<!DOCTYPE PLAY SYSTEM "play.dtd">
<PLAY><TITLE>A play</TITLE><ACT><SCENE>
<SPEECH><SPEAKER>Hamlet</SPEAKER>
<LINE>To be, or <STAGEDIR>Aside</STAGEDIR>not</LINE><LINE>to be</LINE></SPEECH>
<SPEECH><SPEAKER>First</SPEAKER><SPEAKER>Second</SPEAKER><LINE>We come</LINE></SPEECH>
<SPEECH><SPEAKER>HAMLET</SPEAKER><STAGEDIR>Dies</STAGEDIR><LINE>The rest</LINE></SPEECH>
</SCENE></ACT></PLAY>"""
TEXT = """
Contents, by William Shakespeare
  SONNET. Is passed over
    as well

1603

THE TRAGEDY OF HAMLET


by William Shakespeare

ACT I. Scene I.
  Ham. To be,
    or not to be
  [Exit]
  HAM. The rest
THE END

<<the publisher says something>>

THE COMEDY OF ERRORS

by William Shakespeare

AEGEON. Proceed, Solinus,
And by the doom
ACT II. Scene
DUKE. Merchant
<<the publisher
again>>
"""


def show(tokens: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> str:
    return "".join(ALPHABET[token] for token in tokens)


def pool_of(**lines: list[str]) -> SamplePool:
    return windows_of({("play", role): spoken for role, spoken in lines.items()})


def archive(folder: Path, documents: dict[str, str]) -> PlaysArchive:
    with tarfile.open(folder / "moby_xml.tar.xz", "w:xz") as file:
        for name, text in documents.items():
            member = tarfile.TarInfo(f"moby/{name}")
            member.size = len(text.encode())
            file.addfile(member, io.BytesIO(text.encode()))
    content = (folder / "moby_xml.tar.xz").read_bytes()
    return PlaysArchive(hashlib.sha256(content).hexdigest())


def play(**roles: list[str]) -> str:
    speeches = "".join(
        f"<SPEECH><SPEAKER>{role}</SPEAKER>"
        + "".join(f"<LINE>{line}</LINE>" for line in lines)
        + "</SPEECH>"
        for role, lines in roles.items()
    )
    return f"<PLAY>{speeches}</PLAY>"


def test_the_alphabet_has_the_eighty_symbols_of_leaf() -> None:
    assert len(ALPHABET) == len(set(ALPHABET)) == 80


def test_every_window_predicts_the_character_behind_it() -> None:
    pool = pool_of(HAMLET=SPEECH)
    windows, labels = pool.images[:], pool.labels
    assert len(pool.images) == len(labels) == len(LONG) - 80
    assert windows.shape == (len(LONG) - 80, 80)
    for start, (window, label) in enumerate(zip(windows, labels, strict=True)):
        assert show(window) == LONG[start : start + 80]
        assert ALPHABET[label] == LONG[start + 80]


def test_no_window_reaches_into_another_role() -> None:
    pool = pool_of(HAMLET=SPEECH, OPHELIA=["x" * 50] * 3, HORATIO=["y" * 40, "y" * 39, "y"])
    assert pool.natural is not None
    assert np.diff(pool.natural).tolist() == [len(LONG) - 80, 152 - 80, 82 - 80]
    first, last = pool.natural[1], pool.natural[2]
    windows = pool.images[np.arange(first, last)]
    assert {symbol for window in windows for symbol in show(window)} == {"x", " "}
    assert pool.images[pool.natural[2:3]].shape == (1, 80)
    assert ALPHABET[pool.labels[-1]] == "y"


def test_roles_with_two_lines_or_eighty_characters_are_left_out() -> None:
    pool = pool_of(A=["z" * 90] * 2, B=["z" * 26, "z" * 26, "z" * 26], C=["z" * 27] * 3)
    assert pool.natural is not None
    assert np.diff(pool.natural).tolist() == [3]  # 83 characters with the blanks


def test_several_blanks_are_one_and_unknown_characters_are_left_out() -> None:
    pool = pool_of(A=["a   b$\n", "\u00e9c", "d" * 90])
    assert show(pool.images[:1][0]).startswith("a b c ddd")


def test_a_text_without_roles_has_no_windows() -> None:
    pool = windows_of({})
    assert (len(pool.images), len(pool.labels)) == (0, 0)


def test_roles_in_xml_have_their_lines_without_stage_directions() -> None:
    assert plays_in_xml([("hamlet", XML.encode())]) == {
        ("hamlet", "HAMLET"): ["To be, or not", "to be", "The rest"],
        ("hamlet", "FIRST AND SECOND"): ["We come"],
    }


def test_roles_in_the_plain_text_are_found_as_leaf_finds_them() -> None:
    assert plays_in_text(TEXT) == {
        ("THE TRAGEDY OF HAMLET", "HAM"): ["To be,", "or not to be", "The rest"],
        ("THE COMEDY OF ERRORS", "AEGEON"): ["Proceed, Solinus,", "And by the doom"],
        ("THE COMEDY OF ERRORS", "DUKE"): ["Merchant"],
    }


@pytest.mark.parametrize("text", ["", "by William Shakespeare", "nothing\nat all"])
def test_a_text_of_something_else_has_no_roles(text: str) -> None:
    assert plays_in_text(text) == {}


def test_another_edition_of_the_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "100.txt").write_text(TEXT)
    with pytest.raises(DataError, match=r"100\.txt is damaged or another edition: .* 0 roles"):
        PlaysText().read(tmp_path)
    (tmp_path / "100.txt").write_text(TEXT.replace("The rest", "is silence " * 9))
    assert len(PlaysText(fewest_roles=1).read(tmp_path).labels) > 20


def test_a_damaged_archive_is_refused_by_its_digest(tmp_path: Path) -> None:
    layout = archive(tmp_path, {"hamlet.xml": XML})
    with (tmp_path / "moby_xml.tar.xz").open("ab") as file:
        file.write(b"\0")
    with pytest.raises(DataError, match=r"moby_xml\.tar\.xz is damaged: its sha256 is"):
        layout.read(tmp_path)


def test_roles_become_clients_with_shards_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "given" / "shakespeare"
    folder.mkdir(parents=True)
    plays = {f"{name}.xml": play(**{name: [name * 200] * 3}) for name in "abcde"}
    layout = archive(folder, {**plays, "notes.txt": "no play"})
    entry = replace(ENTRIES["shakespeare"], layouts=(layout,))
    monkeypatch.setitem(ENTRIES, "shakespeare", entry)
    monkeypatch.setenv("FEDBED_DATA", str(tmp_path / "given"))
    assert require_dataset("shakespeare") == folder
    dataset = load_dataset("shakespeare")
    assert dataset.official == len(dataset.targets) == 5 * 522

    data = DataSection(
        dataset="shakespeare", partition="natural", clients=3, max_samples=500, train_ratio=0.8
    )
    shards = ShardSet(tmp_path / "shards", Experiment(data=data)).ensure(range(3))
    roles = set()
    for client in range(3):
        shard = shards.load(client)
        assert shard.train.inputs[0].shape == (400, 80)
        assert shard.test.inputs[0].shape == (21, 80)
        (letter,) = {symbol for window in shard.train.inputs[0] for symbol in show(window)} - {
            " "
        }
        roles.add(letter)
    assert len(roles) == 3
    more = ShardSet(tmp_path / "shards", Experiment(data=replace_clients(data, 6)))
    with pytest.raises(ConfigError, match=r"data\.clients is 6; expected at most 5"):
        more.ensure([0])


def replace_clients(data: DataSection, clients: int) -> DataSection:
    return DataSection(dataset=data.dataset, partition="natural", clients=clients)
