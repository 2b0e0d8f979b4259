#!/bin/sh
# Fills a folder with all wheels that boards and broker need, for machines without internet:
#   scripts/wheelhouse.sh DIR                       for machines like this one
#   scripts/wheelhouse.sh DIR --only-binary=:all: --python-version 3.11 --platform manylinux_2_28_aarch64
# Further arguments go to `pip download`. Then set fedbed_wheelhouse in the inventory to DIR.
set -eu
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { echo "usage: scripts/wheelhouse.sh DIR [options of pip download]" >&2; exit 2; }
folder=$1; shift
python=.venv/bin/python
[ -x "$python" ] || python=python3
get() { "$python" -m pip download --quiet --disable-pip-version-check -d "$folder" -c constraints.txt "$@"; }
# What pyproject.toml asks for, without torch: that comes first and alone.
others=$("$python" - <<'PYTHON'
import re
text = open("pyproject.toml", encoding="utf-8").read()
block = re.search(r"^dependencies = \[(.*?)^\]", text, re.S | re.M).group(1)
names = re.findall(r'^  "([A-Za-z0-9_.-]+)', block, re.M)
print(*(name for name in names if name not in ("torch", "tomli")))
PYTHON
)
get "$@" torch
get "$@" setuptools cryptography tomli $others
echo "wheelhouse: $(ls "$folder" | wc -l) files in $folder" >&2
