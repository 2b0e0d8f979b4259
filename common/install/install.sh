#!/bin/sh
# Makes a board of this machine: Python environment, torch that runs on its CPU, service, check.
#   sudo sh install.sh pi-1.toml      from nothing to a running service; again: changes nothing
#   sudo sh install.sh                without credentials: all but the service
#   sudo sh install.sh --uninstall    removes all that it put here, and what the clients know
# Options:
#   --wheels DIR      take packages from this folder only, for boards without internet; wheels/
#                     beside this script is taken by itself (scripts/wheelhouse.sh fills it)
#   --python FILE     the interpreter, 3.10 or later; one is looked for
#   --torch VERSION   another torch than that of torch_versions.txt
#   --workers N       training processes side by side; default: as cores and memory allow
#   --no-service      leave systemd alone
# It writes to /opt/fedbed, /etc/fedbed, /var/lib/fedbed and /etc/systemd/system/fl-client.service,
# makes the user fedbed, and installs python3-venv by apt-get if that is missing.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
folder=/opt/fedbed
etc=/etc/fedbed
state=fedbed
user=fedbed
unit=/etc/systemd/system/fl-client.service
venv=$folder/venv
table=$here/torch_versions.txt
changes=0

say() { echo "install: $*"; }
fail() { echo "install: $*" >&2; exit 1; }
changed() { changes=$((changes + 1)); say "$*"; }
usage() { sed -n '2,/^set -eu/{/^#/s/^# \{0,1\}//p;}' "$0"; }

bundle='' wheels='' python='' torch='' workers='' service=yes uninstall=no
while [ $# -gt 0 ]; do
    case $1 in
        --wheels | --python | --torch | --workers)
            [ $# -ge 2 ] || fail "$1 needs a value; see --help"
            case $1 in
                --wheels) wheels=$2 ;; --python) python=$2 ;; --torch) torch=$2 ;; --workers) workers=$2 ;;
            esac
            shift ;;
        --no-service) service=no ;;
        --uninstall) uninstall=yes ;;
        -h | --help) usage; exit 0 ;;
        -*) fail "there is no option $1; see --help" ;;
        *) [ -z "$bundle" ] || fail "one credentials file at most; got $bundle and $1"
           bundle=$1 ;;
    esac
    shift
done

[ "$(id -u)" -eq 0 ] || fail "needs root; run: sudo sh $0 $bundle"
has_systemd() { [ -d /run/systemd/system ]; }

# --- away with it

remove_all() {
    if has_systemd && [ -e "$unit" ]; then
        systemctl disable --now --quiet fl-client
    fi
    packages=''
    [ ! -e "$folder/packages" ] || packages=$(sort -u "$folder/packages")
    for path in "$unit" "$etc" "/var/lib/$state" "$folder"; do
        [ ! -e "$path" ] || changed "removing $path"
        rm -rf "$path"
    done
    if has_systemd; then systemctl daemon-reload; systemctl reset-failed --quiet fl-client 2>/dev/null || :; fi
    if getent passwd "$user" >/dev/null; then
        changed "removing the user $user"
        userdel "$user"
    fi
    if [ -n "$packages" ]; then
        changed "removing the system packages that came with it:" $packages
        # dpkg and not apt: it refuses to take a package that something else has come to need.
        dpkg --purge $packages >/dev/null
    fi
    [ "$changes" -gt 0 ] || say "nothing was there"
}

if [ "$uninstall" = yes ]; then remove_all; exit 0; fi

# --- what is here

for file in choose_torch.sh torch_versions.txt requirements-board.txt fl-client.service; do
    [ -r "$here/$file" ] || fail "$here/$file is missing; unpack fedbed-board.tar.gz again"
done
. "$here/choose_torch.sh"
if [ -n "$bundle" ]; then
    [ -r "$bundle" ] || fail "$bundle cannot be read; make it on the broker's machine: fl-broker enroll"
    board=$(sed -n 's/^name = "\(.*\)"$/\1/p' "$bundle")
    [ "$(sed -n 's/^role = "\(.*\)"$/\1/p' "$bundle")" = board ] ||
        fail "$bundle is no board's credentials; make them on the broker's machine: fl-broker enroll NAME --clients IDS"
fi
case $workers in *[!0-9]* | 0) fail "--workers is $workers; expected a count such as 2" ;; esac
[ -n "$wheels" ] || [ ! -d "$here/wheels" ] || wheels=$here/wheels
[ -z "$wheels" ] || { [ -d "$wheels" ] || fail "--wheels $wheels is no folder"; wheels=$(cd "$wheels" && pwd); }
package=$(find "$here" ${wheels:+"$wheels"} -maxdepth 1 -name 'fedbed-*.whl' | sort -V | tail -n 1)
[ -n "$package" ] || fail "no fedbed-*.whl beside this script; unpack fedbed-board.tar.gz again"

machine=$(uname -m)
case $machine in
    aarch64 | x86_64) ;;
    armv7l | armv6l) fail "this system is 32-bit ($machine), for which there is no torch; install the 64-bit system" ;;
    *) fail "there is no torch for $machine; expected aarch64 or x86_64" ;;
esac
cpu=$(cpu_kind)
glibc=$(glibc_version)
[ -n "$glibc" ] || fail "this system has no glibc, which torch needs; use Debian, Ubuntu or Raspberry Pi OS"
system=$(. /etc/os-release 2>/dev/null && echo "$PRETTY_NAME" || uname -s)
memory=$(($(sed -n 's/^MemTotal: *\([0-9]*\).*/\1/p' /proc/meminfo) / 1024))
disk=$(($({ df -Pk /opt 2>/dev/null || df -Pk /; } | awk 'NR == 2 {print $4}') / 1024))
say "$machine ($cpu), $system, glibc $glibc, $memory MB of memory, $disk MB free in /opt"
[ "$memory" -ge 400 ] || fail "$memory MB of memory are too little: a training process needs 300 MB and more"
[ "$memory" -ge 900 ] || say "warning: $memory MB of memory are enough for one client and a small model only"

is_recent() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; }
find_python() {
    for candidate in ${python:-"$folder/python/bin/python3" python3 python3.14 python3.13 python3.12 python3.11 python3.10}; do
        if is_recent "$candidate"; then
            # Not that of an environment which is active, perhaps our own.
            "$candidate" -c 'import os, sys; print(os.path.realpath(sys.executable))'
            return
        fi
    done
}

# Systems with an old Python (JetPack 4.6: 3.6) get one of their own: an archive of
# python-build-standalone beside this script or among the wheels, or by uv.
bring_python() {
    archive=$(find "$here" ${wheels:+"$wheels"} -maxdepth 1 -name "cpython-3.1*-$machine-*-install_only*.tar.gz" | head -n 1)
    mkdir -p "$folder"
    if [ -n "$archive" ]; then
        changed "unpacking $(basename "$archive") to $folder/python"
        tar xzf "$archive" -C "$folder"
    elif command -v uv >/dev/null; then
        changed "installing Python 3.11 to $folder/python (uv)"
        uv python install --quiet --install-dir "$folder/uv" 3.11
        mv "$folder"/uv/cpython-3.11* "$folder/python"
        rm -rf "$folder/uv"
    else
        fail "no Python 3.10 or later here ($(python3 --version 2>&1)). Either put" \
            "cpython-3.11.*-$machine-unknown-linux-gnu-install_only.tar.gz of python-build-standalone beside" \
            "this script, or install uv, and run this again; or name an interpreter: --python FILE"
    fi
}

found=$(find_python)
if [ -z "$found" ]; then
    [ -z "$python" ] || fail "--python $python is no Python 3.10 or later"
    bring_python
    found=$(find_python)
    [ -n "$found" ] || fail "the Python in $folder/python does not run here"
fi
python=$found
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')

pins=$(choose_torch "$table" "$machine" "$cpu" "$glibc" "$version")
[ -n "$pins" ] || fail "no torch for $machine with glibc $glibc and Python $version; see torch_versions.txt," \
    "and choose another interpreter: --python FILE"
set -- $pins
[ "$1" != - ] || set -- "$(sed -n 's/^# torch //p' "$here/requirements-board.txt")" "$2"
torch=${torch:-$1} numpy=$2
when=$(dies_when "$table" "$machine" "$cpu" "$torch")
[ -z "$when" ] || fail "torch $torch dies on this CPU ($cpu, seen at: $when); leave --torch out for $1"
say "Python $version, torch $torch$([ "$numpy" = - ] || echo ", numpy $numpy")"

# --- put it there

# put FILE MODE TARGET [OWNER]: a file with these contents; whether it is new.
put() {
    [ -e "$3" ] && cmp -s "$1" "$3" && return 1
    mkdir -p "$(dirname "$3")"
    install -m "$2" ${4:+-o "$4" -g "$4"} "$1" "$3.new" && mv "$3.new" "$3"
    changed "wrote $3"
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

apt_install() {
    command -v apt-get >/dev/null || fail "the venv module of $python is missing; install it"
    export DEBIAN_FRONTEND=noninteractive LC_ALL=C
    apt-get -qq update || :
    apt-get install --simulate --no-install-recommends "$@" >"$scratch/apt" ||
        fail "apt-get cannot install $*; do that, then run this again"
    mkdir -p "$folder"
    sed -n 's/^Inst \([^ ]*\) (.*/\1/p' "$scratch/apt" >>"$folder/packages"
    changed "installing $* (apt-get)"
    apt-get -qq install -y --no-install-recommends "$@" >/dev/null ||
        fail "apt-get could not install $*; do that, then run this again"
}

make_venv() {
    pip_wheel=''
    [ -z "$wheels" ] || pip_wheel=$(find "$wheels" -maxdepth 1 -name 'pip-*.whl' | head -n 1)
    changed "making $venv with Python $version"
    if "$python" -c 'import ensurepip' 2>/dev/null; then
        "$python" -m venv --clear "$venv"
    elif [ -n "$pip_wheel" ]; then
        "$python" -m venv --clear --without-pip "$venv"
        PYTHONPATH="$pip_wheel" "$venv/bin/python" -m pip install --quiet --no-index "$pip_wheel"
    else
        apt_install "python$version-venv"
        "$python" -m venv --clear "$venv"
    fi
}

pip_install() {
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-deps \
        ${wheels:+--no-index --find-links "$wheels"} "$@"
}

# pinned FILE NAME VERSION: the requirement with its hashes, or nothing.
pinned() { awk -v head="$2==$3 " 'index($0, head) == 1 {on = 1} on {print; if (!/\\$/) exit}' "$1"; }

install_packages() {
    make_venv
    if [ "$numpy" = - ]; then
        cp "$here/requirements-board.txt" "$scratch/board"
    else
        awk '/^numpy==/ {off = 1} !off {print} !/\\$/ {off = 0}' "$here/requirements-board.txt" >"$scratch/board"
        pinned "$here/requirements-arm64.txt" numpy "$numpy" >>"$scratch/board"
    fi
    changed "installing the packages that fedbed needs"
    pip_install --require-hashes -r "$scratch/board" || fail "the packages could not be installed; see above"
    changed "installing torch $torch (100 to 200 MB)"
    pinned "$here/requirements-arm64.txt" torch "$torch" >"$scratch/torch"
    if [ "$machine" = x86_64 ]; then
        # The plain name means the CUDA build, gigabytes larger; the CPU builds have an index of their own.
        pip_install --extra-index-url https://download.pytorch.org/whl/cpu "torch==$torch+cpu"
    elif [ -s "$scratch/torch" ]; then
        pip_install --require-hashes -r "$scratch/torch"
    else
        pip_install "torch==$torch"
    fi || fail "torch $torch could not be installed; see above"
}

checksum() { cat "$@" | sha256sum | cut -d ' ' -f 1; }
wanted_packages="$(checksum "$here/requirements-board.txt" "$here/requirements-arm64.txt") $python $version torch $torch numpy $numpy"
wanted="fedbed $(checksum "$package")"
installed() { sed -n "$1p" "$folder/installed" 2>/dev/null || :; }

if [ "$(installed 1)" != "$wanted_packages" ] || [ "$(installed 2)" != "$wanted" ]; then
    needed=200
    [ "$(installed 1)" = "$wanted_packages" ] || needed=1500
    [ "$disk" -ge "$needed" ] || fail "$disk MB are free in /opt; $needed are needed: free some"
    # A daemon would start training processes of the new code with its own old one.
    if has_systemd && systemctl is-active --quiet fl-client; then systemctl stop fl-client; fi
    kept=$(installed 1)
    rm -f "$folder/installed"
    mkdir -p "$folder"
    [ "$kept" = "$wanted_packages" ] || install_packages
    changed "installing $(basename "$package")"
    pip_install --no-index --force-reinstall "$package" || fail "fedbed could not be installed; see above"
    printf '%s\n%s\n' "$wanted_packages" "$wanted" >"$folder/installed"
fi
for file in install.sh choose_torch.sh torch_versions.txt; do
    [ "$here" = "$folder" ] || put "$here/$file" 644 "$folder/$file" || :
done

if ! getent passwd "$user" >/dev/null; then
    changed "making the user $user"
    useradd --system --user-group --no-create-home --home-dir "/var/lib/$state" --shell /usr/sbin/nologin "$user"
fi
if [ ! -d "/var/lib/$state" ]; then
    changed "making /var/lib/$state"
    install -d -m 700 -o "$user" -g "$user" "/var/lib/$state"
fi

options="--state /var/lib/$state"
[ -z "$workers" ] || options="$options --workers $workers"
restart=no
if [ -n "$bundle" ]; then
    options="--credentials $etc/credentials.toml $options"
    if put "$bundle" 600 "$etc/credentials.toml" "$user"; then restart=yes; fi
fi

if [ -z "$bundle" ] || [ "$service" = no ]; then
    :
elif has_systemd; then
    sed -e "s|@PACKAGE@|$wanted|; s|@BOARD@|$board|; s|@PROGRAM@|$venv/bin/fl-client|; s|@OPTIONS@|$options|" \
        -e "s|@USER@|$user|; s|@STATE@|$state|; s|@WATCHDOG@|60|; s|@MEMORY@|80%|; s|@SWAP@|0|" \
        "$here/fl-client.service" >"$scratch/unit"
    if put "$scratch/unit" 644 "$unit"; then systemctl daemon-reload; restart=yes; fi
    systemctl is-enabled --quiet fl-client || systemctl enable --quiet fl-client
    if [ "$restart" = yes ] || ! systemctl is-active --quiet fl-client; then
        changed "starting the service fl-client"
        systemctl restart fl-client || fail "the service does not start; see: journalctl -u fl-client"
    fi
else
    say "no systemd here, so no service; start the daemon yourself, as $user: $venv/bin/fl-client run $options"
fi

# --- look whether it works

say "$changes changes; now fl-client doctor:"
if command -v runuser >/dev/null; then as="runuser -u $user --"; else as=''; fi
cd /
$as "$venv/bin/fl-client" doctor $options ||
    fail "this board is not fit for experiments yet: see FAIL above, then run this again"
[ -z "$bundle" ] || say "done: board $board;$(! has_systemd || echo " its log: journalctl -u fl-client;")" \
    "away with it: sudo sh $folder/install.sh --uninstall"
