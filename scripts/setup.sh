#!/bin/sh
# Brings this checkout to where its commands run: Python, Mosquitto, .venv with pinned packages.
#   scripts/setup.sh demo    what an experiment needs
#   scripts/setup.sh test    that, and the tools of the tests
#   scripts/setup.sh fleet   all that, Ansible, and what makes machines to provision
#   scripts/setup.sh arm     as test, and what emulates boards
# A second run finds its stamp and ends at once. PYTHON=python3.12 chooses the interpreter.
set -eu
cd "$(dirname "$0")/.."
PATH="$PATH:/usr/sbin:/usr/local/sbin:/opt/homebrew/sbin"

mode="${1:-}"
case "$mode" in
    demo) extras=broker,data,plots ;;
    test | arm) extras=accounting,broker,cluster,data,parquet,plots,tensorboard,dev ;;
    fleet) extras=accounting,broker,cluster,data,parquet,plots,tensorboard,dev,fleet ;;
    *) echo "usage: scripts/setup.sh demo|test|arm|fleet" >&2; exit 2 ;;
esac

. common/install/choose_torch.sh
say() { echo "setup: $*" >&2; }
fail() { say "$*"; exit 1; }

# apt_install INSTRUCTION PACKAGE...: by apt where there is one, else the instruction for a person.
apt_install() {
    instruction=$1; shift
    command -v apt-get >/dev/null || fail "$instruction, then run this again"
    sudo=
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || fail "as root: apt-get install $*; then run this again"
        sudo=sudo
    fi
    say "installing $* (apt-get)"
    get="$sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq"
    # A fresh machine knows no packages before its first update.
    $get install -y --no-install-recommends "$@" >/dev/null 2>&1 ||
        { $get update && $get install -y --no-install-recommends "$@" >/dev/null; } ||
        fail "apt-get could not install $*; $instruction, then run this again"
}

is_recent() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; }

find_python() {
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.10}; do
        if is_recent "$candidate"; then echo "$candidate"; return; fi
    done
}

make_venv() {
    python=$(find_python)
    if [ -z "$python" ] && [ -z "${PYTHON:-}" ] && ! command -v python3 >/dev/null; then
        apt_install "install Python 3.10 or later" python3 python3-venv
        python=$(find_python)
    fi
    [ -n "$python" ] || fail "no Python 3.10 or later found; install one, or name it: PYTHON=/path/to/python3"
    # Debian splits ensurepip off; `import venv` works without it and `-m venv` then fails.
    if ! "$python" -c 'import ensurepip' 2>/dev/null; then
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        apt_install "install the venv module of $python" "python$version-venv"
    fi
    say "making .venv with $("$python" --version)"
    "$python" -m venv --clear .venv
}

pip_install() { .venv/bin/python -m pip install --quiet --disable-pip-version-check -c .venv/constraints.txt "$@"; }

# The versions of constraints.txt, with those of the table where it has others for this machine.
choose_versions() {
    version=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    cp constraints.txt .venv/constraints.txt
    [ "$(uname -s)" = Linux ] || return 0
    pins=$(choose_torch common/install/torch_versions.txt "$(uname -m)" "$(cpu_kind)" "$(glibc_version)" "$version")
    [ -n "$pins" ] || fail "no torch for $(uname -m), glibc $(glibc_version) and Python $version in" \
        "common/install/torch_versions.txt; use a 64-bit system, or another Python (PYTHON=python3.12 make demo)"
    set -- $pins
    for name in torch numpy torchvision; do
        if [ "$1" != - ]; then
            sed -i "/^$name==/d" .venv/constraints.txt
            echo "$name==$1" >>.venv/constraints.txt
        fi
        shift
    done
}

install_torch() {
    version=$(sed -n 's/^torch==//p' .venv/constraints.txt)
    say "installing torch $version (about 200 MB)"
    # On x86-64 Linux the plain name means the CUDA build, which is gigabytes larger.
    if [ "$(uname -s)-$(uname -m)" = Linux-x86_64 ]; then
        pip_install "torch==$version+cpu" 2>/dev/null && return
        say "no CPU build of torch at hand; taking the CUDA build, which is gigabytes larger" \
            "(to avoid that, point PIP_EXTRA_INDEX_URL at PyTorch's index of CPU builds)"
    fi
    pip_install "torch==$version" && return
    fail "torch $version could not be installed for $(.venv/bin/python --version) on $(uname -m)." \
        "If there is no wheel: use a 64-bit system and another Python (PYTHON=python3.12 make demo)"
}

command -v mosquitto >/dev/null || apt_install "install mosquitto 2.0 or later (macOS: brew install mosquitto)" mosquitto

if [ "$mode" = fleet ]; then
    for program in mmdebstrap systemd-nspawn ip ssh dpkg-scanpackages; do
        command -v "$program" >/dev/null && continue
        apt_install "install mmdebstrap, systemd-container, iproute2, openssh-client and dpkg-dev" \
            mmdebstrap systemd-container iproute2 openssh-client dpkg-dev
        break
    done
fi

if [ "$mode" = arm ]; then
    mode=test
    command -v mmdebstrap >/dev/null && command -v qemu-aarch64-static >/dev/null ||
        apt_install "install mmdebstrap and qemu-user-static" mmdebstrap qemu-user-static
fi

wanted="$(cat pyproject.toml constraints.txt scripts/setup.sh common/install/torch_versions.txt | cksum) $PWD"
if [ "$(cat ".venv/stamp-$mode" 2>/dev/null)" = "$wanted" ] && is_recent .venv/bin/python; then
    exit 0
fi
rm -f .venv/stamp-*
# A copied or moved .venv still calls the programs of the old place.
if ! is_recent .venv/bin/python || ! grep -qF "$(pwd -P)/.venv" .venv/bin/activate ||
    ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    make_venv
fi
if [ "$mode" != demo ] && ! command -v chromium >/dev/null && ! command -v google-chrome >/dev/null; then
    (apt_install "install Chromium" chromium) ||
        say "no Chromium here: the tests of the web page will be skipped"
fi
choose_versions
install_torch
say "installing fedbed and what it needs"
pip_install -e ".[$extras]" || fail "the packages could not be installed; see above"
echo "$wanted" >".venv/stamp-$mode"
[ "$mode" = demo ] || echo "$wanted" | tee .venv/stamp-demo >.venv/stamp-test
say "done"
