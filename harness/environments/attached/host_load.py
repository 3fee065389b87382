"""The second program of ours on a host: the agent, of which no file is kept there.

Sent as text: ``python3 -I -c TEXT PORT BYTES``. The zip file of the agent follows on its standard
input. It lies in memory, where the agent and its watchdog are imported from.
"""

import os
import runpy
import sys


def main() -> None:
    """Become the agent."""
    size = int(sys.argv[2])
    sent = os.memfd_create("maxq-agent")
    with open(sent, "wb", closefd=False) as file:
        while size:
            piece = os.read(0, size)
            if not piece:
                sys.exit(0)
            size -= len(piece)
            file.write(piece)
    path = f"/proc/self/fd/{sent}"
    sys.path.insert(0, path)
    runpy.run_path(path, run_name="__main__")


if __name__ == "__main__":
    main()
