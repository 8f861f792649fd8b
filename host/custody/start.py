"""Entry: `python -I -S start.py HOST_PID PACKAGE_PARENT RUN_FOLDER`, started by the host.

Descriptor 3 is the warden's socket, 4 the zygote's, 5 the lock of the run folder, held by the
warden as long as it lives. The first thing it does is to fork, so the zygote warms while the warden
begins to serve. Never imported.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_WARDEN, _ZYGOTE, _LOCK = 3, 4, 5


def fork_zygote(sock: int) -> int:
    """Returns the zygote's pid to the warden; in the zygote it never returns. Raises `OSError`."""
    warden = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            _close_all_but(sock)
            from awaitbox.host.custody import zygote

            zygote.main(sock, warden)
        finally:
            os._exit(70)
    return pid


def _close_all_but(sock: int) -> None:
    """An end of another's socket that lived on in the zygote would hide that one's death."""
    os.closerange(3, sock)
    os.closerange(sock + 1, 1 << 20)


def main() -> NoReturn:
    host_pid, package_parent, run_folder = sys.argv[1:]
    sys.path.append(package_parent)
    os.chdir("/")
    zygote = fork_zygote(_ZYGOTE)
    os.close(_ZYGOTE)
    os.closerange(_LOCK + 1, 1 << 20)
    from awaitbox.host.custody import warden

    warden.main(int(host_pid), _WARDEN, run_folder, zygote, fork_zygote)


if __name__ == "__main__":
    main()
