"""What the playbooks and the image say twice agrees with the project; their own code works."""

from __future__ import annotations

import importlib.util
import io
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
ANSIBLE = ROOT / "ansible"
PLAYBOOKS = ("site", "python", "deploy", "run", "status", "collect", "reset")


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def clients() -> ModuleType:
    return load(ANSIBLE / "filter_plugins" / "clients.py")


def requirements() -> set[str]:
    text = (ROOT / "pyproject.toml").read_text()
    block = re.search(r"^dependencies = \[(.*?)^\]", text, re.S | re.M)
    assert block is not None
    return set(re.findall(r'^  "([A-Za-z0-9_.-]+)', block[1], re.M)) - {"torch", "tomli"}


def test_the_role_installs_what_the_package_requires() -> None:
    text = (ANSIBLE / "roles" / "fedbed" / "vars" / "main.yml").read_text()
    assert (
        set(re.findall(r'^  - "?([A-Za-z0-9_.-]+)', text, re.M)) - {"tomli"} == requirements()
    )


def test_the_image_installs_what_the_package_requires() -> None:
    text = (ROOT / "Dockerfile").read_text()
    listed = re.search(r"constraints\.txt setuptools \\\n(.*)\n", text)
    assert listed is not None
    assert set(listed[1].split()) == requirements() | {"cryptography"}


def test_boards_without_ids_get_the_next_free_ones(clients: ModuleType) -> None:
    boards = {
        "a": {"fl_client_count": 2},
        "b": {"fl_client_clients": "1-2,7"},
        "c": {},
    }
    assert clients.spread_clients(list(boards), boards, 3) == {
        "a": "0,3",
        "b": "1-2,7",
        "c": "4-6",
    }


def test_a_board_at_the_end_changes_nobody_elses_clients(clients: ModuleType) -> None:
    before = clients.spread_clients(["a", "b"], {"a": {}, "b": {}}, 2)
    after = clients.spread_clients(["a", "b", "c"], {"a": {}, "b": {}, "c": {}}, 2)
    assert {**before, "c": "4-5"} == after


def test_a_client_on_two_boards_is_refused(clients: ModuleType) -> None:
    boards = {"a": {"fl_client_clients": "0-2"}, "b": {"fl_client_clients": "2"}}
    with pytest.raises(ValueError, match="client 2 is on a and on b"):
        clients.spread_clients(list(boards), boards, 1)


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "0-2;5"])
def test_what_are_no_clients_is_refused(clients: ModuleType, text: str) -> None:
    with pytest.raises(ValueError, match="are no clients"):
        clients.client_ids(text)


def test_the_same_checkout_packs_to_the_same_bytes() -> None:
    pack = load(ANSIBLE / "roles" / "fedbed" / "files" / "pack.py")
    assert pack.pack(ROOT) == pack.pack(ROOT)


def test_of_users_code_only_the_python_files_go_to_boards(tmp_path: Path) -> None:
    pack = load(ANSIBLE / "roles" / "fl_client" / "files" / "pack_code.py")
    for name in (
        "mine.py",
        "deep/er.py",
        "x.toml",
        ".venv/lib/site-packages/a.py",
        "deep/__pycache__/b.py",
    ):
        (tmp_path / "my" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "my" / name).write_text("")

    def packed() -> list[str]:
        with tarfile.open(fileobj=io.BytesIO(pack.pack(tmp_path / "my"))) as tar:
            return tar.getnames()

    assert packed() == ["deep/er.py", "mine.py"]
    (tmp_path / "my" / "__init__.py").write_text("")  # now it is a package
    assert packed() == ["my/__init__.py", "my/deep/er.py", "my/mine.py"]


@pytest.mark.parametrize("name", PLAYBOOKS)
def test_ansible_understands_the_playbook(name: str) -> None:
    beside = Path(sys.executable).with_name("ansible-playbook")
    program = str(beside) if beside.exists() else shutil.which("ansible-playbook")
    if program is None:
        pytest.skip("ansible is not installed")
    command = [program, "--syntax-check", "-i", "inventory.example.yml", f"{name}.yml"]
    done = subprocess.run(command, cwd=ANSIBLE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
