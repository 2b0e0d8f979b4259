# Read by other scripts: . choose_torch.sh. The choice by torch_versions.txt, as torch_versions.py
# makes it (a test compares them).

# at_least A B: version A is B or later.
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }

cpu_kind() {
    [ "$(uname -m)" = aarch64 ] || { echo any; return; }
    if grep -m 1 '^Features' /proc/cpuinfo | grep -qw atomics; then echo armv8.1; else echo armv8.0; fi
}

glibc_version() { getconf GNU_LIBC_VERSION 2>/dev/null | sed -n 's/^glibc //p'; }

# choose_torch TABLE MACHINE CPU GLIBC PYTHON: prints "torch numpy torchvision", or nothing.
choose_torch() {
    while read -r kind machine cpu glibc python versions; do
        [ "$kind $machine" = "use $2" ] || continue
        [ "$cpu" = any ] || [ "$cpu" = "$3" ] || continue
        at_least "$4" "$glibc" && at_least "$python" "$5" || continue
        echo "$versions"
        return
    done <"$1"
}

# dies_when TABLE MACHINE CPU TORCH: prints when that torch dies there, or nothing.
dies_when() {
    while read -r kind machine cpu torch when; do
        [ "$kind $machine $cpu $torch" = "dies $2 $3 ${4%%+*}" ] && echo "$when"
    done <"$1"
    return 0
}
