# Sourced by the tools in this directory: makes ./.venv when there is none, brings it up to date when
# pyproject.toml or the checkout's place changed, and is quiet otherwise.
#
#   . "$(dirname "$0")/_venv.sh"; venv_ready          the package and what it needs
#   . "$(dirname "$0")/_venv.sh"; venv_ready test     and what its tests need
#
# Sets ROOT (the checkout) and VENV. PYTHON=... chooses the interpreter of a new environment.
# Diagnostics go to stderr: a tool's stdout is its own.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
VENV=$ROOT/.venv

_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

_find_python() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} python3 python3.13 python3.12 python3.11; do
        if _new_enough "$candidate"; then
            echo "$candidate"
            return 0
        fi
    done
    echo "trioroute needs Python 3.11 or newer, found $(python3 --version 2>&1 || echo none):" \
        "install one, or name it with PYTHON=/path/to/python3" >&2
    return 1
}

_make_venv() {
    local python
    python=$(_find_python) || return 1
    echo "making $VENV" >&2
    if ! "$python" -m venv --clear "$VENV" >&2; then
        echo "$python -m venv failed; on Debian or Ubuntu: apt install python3-venv" >&2
        return 1
    fi
}

# The installation is of this pyproject.toml, at this place (an editable install points to it).
_stamp_text() {
    echo "$(cksum <"$ROOT/pyproject.toml") $ROOT"
}

venv_ready() {
    local extra=${1:-} stamp wanted
    stamp=$VENV/.installed${extra:+-$extra}
    wanted=$(_stamp_text)
    if [ -x "$VENV/bin/python" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
        return 0
    fi
    if ! _new_enough "$VENV/bin/python"; then
        _make_venv || return 1
    fi
    echo "installing trioroute${extra:+ and its $extra tools} into $VENV (once, up to a minute)" >&2
    local said
    if ! said=$("$VENV/bin/python" -m pip install -q --disable-pip-version-check \
        -e "$ROOT${extra:+[$extra]}" 2>&1); then
        echo "$said" >&2
        echo "the installation failed: see above; it needs a package index for the first run" >&2
        return 1
    fi
    echo "$wanted" >"$stamp"
    echo "$wanted" >"$VENV/.installed" # the extra includes the package itself
}
