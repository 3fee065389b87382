"""The first program of ours on a host: keeps the agent there, and becomes it, as root.

Sent as text: ``python3 -I -c TEXT DIGEST``. Prints one line of JSON: what the host has. Then it
reads a line. A number is how many bytes of the agent follow, none where the host has it by its
digest; whatever else ends it. What could not be stored is the next line, and otherwise the agent's
frames follow.

Rules for those who edit it: it runs under whatever Python 3 a host has, so that an old one is
refused by name.
"""

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys

LEAST = (3, 9)  # of Python, for the agent
FOLDER = "~/.cache/maxq"
TRIAL_TIMEOUT_S = 10


def sudo_says() -> str:
    """Why this user may not become root without a password; empty if so."""
    if os.getuid() == 0:
        return ""
    try:
        done = subprocess.run(
            ["sudo", "-n", "--", sys.executable, "-I", "-c", "pass"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=TRIAL_TIMEOUT_S,
        )  # fmt: skip
    except FileNotFoundError:
        return "there is no sudo"
    except subprocess.TimeoutExpired:
        return "sudo does not answer"
    said = done.stdout.decode("utf-8", "replace").strip()
    return said.split("\n")[-1] or "sudo fails" if done.returncode else ""


def is_whole(path: str, digest: str) -> bool:
    """Whether a file has this digest."""
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest() == digest
    except OSError:
        return False


def line() -> str:
    """A line of what is sent, and no byte beyond."""
    read = b""
    while not read.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            sys.exit(0)
        read += byte
    return read.decode().strip()


def store(path: str, size: int) -> None:
    """Write what follows to a file, whole or not at all."""
    data = b""
    while len(data) < size:
        piece = os.read(0, size - len(data))
        if not piece:
            sys.exit(0)
        data += piece
    beside = f"{path}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(beside, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(beside, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


def main() -> None:
    """Say what is here, keep the agent, and become it."""
    digest = sys.argv[1]
    path = os.path.join(os.path.expanduser(FOLDER), f"agent-{digest[:16]}.pyz")
    os.environ["PATH"] = os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/bin:/bin"
    found = {
        "python": list(sys.version_info[:2]),
        "interpreter": sys.executable,
        "sudo": sudo_says(),
        "nft": shutil.which("nft") is not None,
        "stored": is_whole(path, digest),
    }
    os.write(1, json.dumps(found).encode() + b"\n")
    size = line()
    if not size.isdigit():
        return
    try:
        if int(size):
            store(path, int(size))
        if not is_whole(path, digest):
            raise OSError(f"{path} is not what was sent")
        port = os.environ.get("SSH_CONNECTION", "").split()[3:] or ["22"]
        command = [sys.executable, "-I", path, port[0]]
        if os.getuid():
            command = ["sudo", "-n", "--", *command]
        os.write(1, b"\n")
        os.execvp(command[0], command)
    except OSError as error:
        os.write(1, f"{FOLDER}: {error.strerror or error}\n".encode())


if __name__ == "__main__":
    main()
