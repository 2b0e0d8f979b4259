#!/bin/sh
# Fills a folder with all wheels that are needed, for machines without internet:
#   scripts/wheelhouse.sh DIR                 boards and broker like this machine
#   scripts/wheelhouse.sh DIR --for aarch64   Raspberry Pi 4 and 5, Jetson Orin; further options, with
#       --python 3.11     the Python of the boards (Raspberry Pi OS Trixie: 3.13)         [these
#       --glibc 2.36      their C library (JetPack 4.6: 2.27)                              defaults]
#       --cpu armv8.0     armv8.0 or armv8.1, as in common/install/torch_versions.txt
# torch is that of common/install/torch_versions.txt. Then: sudo sh install.sh --wheels DIR on a
# board, or fedbed_wheelhouse in the inventory.
set -eu
cd "$(dirname "$0")/.."
usage() { sed -n '2,/^set -eu/{/^#/s/^# \{0,1\}//p;}' scripts/wheelhouse.sh >&2; exit 2; }
[ $# -ge 1 ] || usage
case $1 in -*) usage ;; esac
folder=$1; shift
machine='' python_version=3.11 glibc=2.36 cpu=armv8.0
while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || usage
    case $1 in
        --for) machine=$2 ;; --python) python_version=$2 ;; --glibc) glibc=$2 ;; --cpu) cpu=$2 ;;
        *) usage ;;
    esac
    shift 2
done
. common/install/choose_torch.sh
python=.venv/bin/python
[ -x "$python" ] || python=python3
mkdir -p "$folder"
get() { "$python" -m pip download --quiet --disable-pip-version-check -d "$folder" "$@"; }
own=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# choose MACHINE CPU GLIBC PYTHON: sets torch and numpy; "-" is the pinned version.
choose() {
    pins=$(choose_torch common/install/torch_versions.txt "$@")
    [ -n "$pins" ] || { echo "wheelhouse: no torch for $*; see common/install/torch_versions.txt" >&2; exit 1; }
    set -- $pins
    torch=$1 numpy=$2
    [ "$torch" != - ] || torch=$(sed -n 's/^torch==//p' constraints.txt)
}

# With --no-deps: pip would look at this machine to see what torch needs, and fetch CUDA.
for_others() {
    choose "$machine" "$cpu" "$glibc" "$python_version"
    platforms=''
    minor=${glibc#2.}
    while [ "$minor" -ge 17 ]; do
        platforms="$platforms --platform manylinux_2_${minor}_$machine"
        minor=$((minor - 1))
    done
    set -- --no-deps --only-binary=:all: --implementation cp --python-version "$python_version" \
        $platforms --platform "manylinux2014_$machine"
    # The lines for that Python: pip goes by its own.
    "$python" - "$python_version" "$numpy" >"$scratch/board" <<'PYTHON'
import re, sys
version, numpy = tuple(map(int, sys.argv[1].split("."))), sys.argv[2]
text = open("common/install/requirements-board.txt", encoding="utf-8").read()
for block in re.findall(r"^[^#\s][^\n]*\\\n(?:    .*\\\n)*    .*\n", text, re.M):
    head, _, hashes = block.partition("\\\n")
    pin, _, marker = head.partition(";")
    old = "< '3.11'" in marker
    if marker and old != (version < (3, 11)) or pin.startswith("numpy==") and numpy != "-":
        continue
    print(f"{pin.strip()} \\\n{hashes}", end="")
PYTHON
    get "$@" --require-hashes -r "$scratch/board"
    [ "$numpy" = - ] || get "$@" "numpy==$numpy"
    get "$@" "torch==$torch"
    get "$@" pip
}

for_this_one() {
    choose "$(uname -m)" "$(cpu_kind)" "$(glibc_version)" "$own"
    grep -v -e '^torch==' $([ "$numpy" = - ] || echo "-e ^numpy==") constraints.txt >"$scratch/constraints"
    echo "torch==$torch" >>"$scratch/constraints"
    [ "$numpy" = - ] || echo "numpy==$numpy" >>"$scratch/constraints"
    # On x86-64 the plain name means the CUDA build, gigabytes larger.
    { [ "$(uname -m)" = x86_64 ] && get -c "$scratch/constraints" "torch==$torch+cpu" 2>/dev/null; } ||
        get -c "$scratch/constraints" torch
    others=$("$python" - <<'PYTHON'
import re
text = open("pyproject.toml", encoding="utf-8").read()
block = re.search(r"^dependencies = \[(.*?)^\]", text, re.S | re.M).group(1)
names = re.findall(r'^  "([A-Za-z0-9_.-]+)', block, re.M)
print(*(name for name in names if name not in ("torch", "tomli")))
PYTHON
    )
    get -c "$scratch/constraints" pip setuptools cryptography tomli $others
}

if [ -n "$machine" ]; then for_others; else for_this_one; fi
echo "wheelhouse: $(ls "$folder" | wc -l) files in $folder, torch $torch" >&2
