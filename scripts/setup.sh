#!/usr/bin/env bash
# Prepares everything Tidings needs on a Debian or Ubuntu machine; safe to run again at any time.
#   scripts/setup.sh         Java, the virtual environment, the packages, the compiled kernels
#   scripts/setup.sh java    only Java: prints the JAVA_HOME to use
#   scripts/setup.sh tests   only what some tests use besides: PostgreSQL, Chromium, nginx, Caddy
set -euo pipefail
cd "$(dirname "$0")/.."
export DEBIAN_FRONTEND=noninteractive
venv=.venv

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif sudo -n true 2>/dev/null; then sudo -n env DEBIAN_FRONTEND=noninteractive "$@"
    else return 1
    fi
}

# Fetches the package lists, once per run.
apt_update() {
    command -v apt-get >/dev/null && as_root true || return 1
    [ -z "${updated:-}" ] || return 0
    say "fetching the package lists (apt-get update)"
    # a broken list of some other software must not stop us: the install below tells
    as_root apt-get -o DPkg::Lock::Timeout=300 -qq update >/dev/null 2>&1 || true
    updated=yes
}

# apt_install WHAT-FOR PACKAGE...: installs the first of the packages that this release has; fails if none could be.
apt_install() {
    local purpose=$1 package log; shift
    apt_update || return 1
    log=$(mktemp)
    as_root mkdir -p /usr/share/man/man1 || true  # slim images lack it, and Java's package fails without
    for package in "$@"; do
        say "installing $package for $purpose"
        if as_root apt-get -o DPkg::Lock::Timeout=300 -qq -y --no-install-recommends install "$package" >>"$log" 2>&1; then
            rm -f "$log"; return 0
        fi
    done
    tail -n 5 "$log" >&2; rm -f "$log"; return 1
}

good_python() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }
has_venv() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

# The first Python of at least 3.11, one that can make virtual environments if there is such a one.
find_python() {
    local candidate fallback=
    for candidate in python3.13 python3.12 python3.11 python3; do
        good_python "$candidate" || continue
        if has_venv "$candidate"; then echo "$candidate"; return; fi
        fallback=${fallback:-$candidate}
    done
    echo "$fallback"
}

ensure_venv() {
    if good_python "$venv/bin/python" && "$venv/bin/python" -m pip --version >/dev/null 2>&1; then return; fi
    local python versioned
    python=$(find_python)
    [ -n "$python" ] || die "Tidings needs Python 3.11 or later; install it (sudo apt-get install python3 python3-venv) and try again."
    if ! has_venv "$python"; then
        versioned=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
        apt_install "virtual environments" "$versioned" python3-venv && has_venv "$python" ||
            die "$python cannot make virtual environments; install them (sudo apt-get install $versioned) and try again."
    fi
    say "making the virtual environment $venv with $("$python" --version)"
    "$python" -m venv --clear "$venv"
}

# Prints the home of a Java that Spark can use; installs one if there is none.
ensure_java() {
    local python=$venv/bin/python
    "$python" -P src/tidings/spark/java.py && return
    apt_install "Spark" openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless || true
    "$python" -P src/tidings/spark/java.py && return
    die "Spark needs Java 17 or later; install it (sudo apt-get install openjdk-17-jre-headless) or set JAVA_HOME, and try again."
}

install_packages() {
    say "installing the Python packages (the first time this takes a few minutes)"
    # older pips install Spark's source package in a way of their own, with a page of warnings
    "$venv/bin/python" -m pip install -q --disable-pip-version-check 'pip>=24'
    "$venv/bin/python" -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]' -e lab
}

warm_kernels() {
    [ -f src/tidings/jit.py ] || [ -d src/tidings/jit ] || return 0
    say "compiling the kernels"
    "$venv/bin/python" -m tidings.jit >/dev/null || say "the kernels could not be compiled ahead; they will be at first use"
}

# The tests of the store run on PostgreSQL too where there is a server; without it they are skipped.
offer_postgresql() {
    compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || command -v initdb >/dev/null ||
        apt_install "the tests of the store" postgresql || say "no PostgreSQL server; its tests will be skipped"
}

# The tests of the web page run in Chromium; without it they are skipped.
offer_browser() {
    command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null ||
        { apt_install "the tests of the web page" chromium && apt_install "the web page" fonts-dejavu-core; } ||
        say "no Chromium; the tests of the web page will be skipped"
}

# The tests of docs/deploy.md run nginx and Caddy. Only the programs are unpacked, into the virtual environment: the
# packages would start web servers on this machine.
offer_proxies() {
    local program unpacked
    for program in nginx caddy; do
        command -v "$program" >/dev/null || [ -x "/usr/sbin/$program" ] || [ -x "$venv/bin/$program" ] && continue
        unpacked=$(mktemp -d)
        apt_update && say "unpacking $program for the tests of web servers" &&
            (cd "$unpacked" && apt-get -qq download "$program" && dpkg -x ./*.deb .) >/dev/null 2>&1 &&
            find "$unpacked/usr" -path '*bin/*' -name "$program" -exec cp {} "$venv/bin/" \; &&
            "$venv/bin/$program" -h >/dev/null 2>&1 || { rm -f "$venv/bin/$program"; say "no $program; its tests will be skipped"; }
        rm -rf "$unpacked"
    done
}

# Tests start Spark about fifty times.
record_classes() {
    say "recording the classes of Spark, so that it starts faster"
    "$venv/bin/python" -m tidings.stream.train_archive >/dev/null 2>&1 || say "the classes of Spark could not be recorded"
}

ensure_venv
if [ "${1:-}" = tests ]; then offer_postgresql; offer_browser; offer_proxies; record_classes; exit; fi
if [ "${1:-}" = java ]; then ensure_java; exit; fi
java_home=$(ensure_java)  # on its own line, so that a failure ends the script
say "Java: $java_home"
install_packages
warm_kernels
say "ready: $venv/bin/tidings"
