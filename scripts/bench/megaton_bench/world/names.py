"""Names of the hosts, in a mount namespace of each program: the machine's own files stay as they are."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from ..errors import BenchError
from .hosts import Host

#: Replaces the files of the resolver, and then itself by the program.
SCRIPT = """
mount --bind "$1/hosts" /etc/hosts && mount --bind "$1/nsswitch.conf" /etc/nsswitch.conf || exit 69
shift
exec "$@"
"""


class Names:
    """Names that programs started with `command` resolve; all other names do not exist for them."""

    def __init__(self, home: Path, hosts: list[Host]) -> None:
        self._home = home
        home.mkdir()
        lines = ["127.0.0.1 localhost", *(f"{host.address} {host.name}" for host in hosts)]
        (home / "hosts").write_text("\n".join(lines) + "\n")
        # No DNS: a name that is not in the file is unknown at once, on every machine.
        (home / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files\n")

    def command(self, arguments: list[str]) -> list[str]:
        """A command whose program sees the names."""
        root = [] if os.geteuid() == 0 else ["--map-root-user"]
        return ["unshare", "--mount", *root, "sh", "-c", SCRIPT, "sh", str(self._home), *arguments]

    def check(self, host: Host) -> None:
        """Raises an error if programs do not see the names."""
        if not shutil.which("unshare"):
            raise BenchError("unshare is missing: apt-get install util-linux")
        command = self.command(["getent", "hosts", host.name])
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.stdout.split()[:1] != [host.address]:
            raise BenchError(
                "the names of the hosts need a mount namespace, which unshare refuses: "
                f"{result.stderr.strip() or 'unknown reason'}\nRun this as root, or allow user namespaces."
            )
