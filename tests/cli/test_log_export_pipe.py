"""An export whose reader has enough ends quietly, as other tools in a pipe do."""

import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from trioroute.cli.root import main


def test_an_export_into_head_ends_quietly(tmp_path: Path) -> None:
    log = tmp_path / "log"
    simulated = ["simulate", "--workload", "chat:minutes=3", "--policy", "soft-sticky"]
    made = CliRunner().invoke(main, [*simulated, "--engine", "tiny", "--log", str(log)])
    assert made.exit_code == 0, made.output
    export = f"{sys.executable} -m trioroute log export {log}"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {export} | head -1"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
