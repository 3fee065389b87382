"""Toxiproxy's server: a program of this machine, or one that Go builds once from its module.

What was built lies in the cache, in a folder that says its version. Its sources are those of the
day when it was pinned: Go writes the digest of each module into what it builds, and all of them
are compared. So Go's own database of digests is not asked, which not everybody can reach. A run
records which server it had, since another may be found first.
"""

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from maxq.harness.contracts.environment import Capability, EnvironmentUnavailable, Lack

VERSION = "v2.5.0"
MODULE = "github.com/Shopify/toxiproxy/v2"
SOURCES = "17ab126cbe29e583524b640122262b15bb3f0cbfdd79dd9b25321724bec290ad"  # SHA-256 of `sources`
NAME, CHOICE = "toxiproxy-server", "TOXIPROXY_SERVER"
CLIENT = "toxiproxy-python"
BUILD_TIMEOUT_S = 600
NEEDED_BY = (Capability.DELAY, Capability.BANDWIDTH)


def cache() -> Path:
    """Where what was built is kept: below XDG_CACHE_HOME, or ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "maxq" / "toxiproxy" / VERSION


def found() -> Path | None:
    """The server that is here: the one that is chosen, or in the PATH, or was built."""
    chosen = os.environ.get(CHOICE)
    if chosen:
        return Path(chosen).resolve() if os.access(chosen, os.X_OK) else None
    there = shutil.which(NAME)
    if there is not None:
        return Path(there).resolve()
    built = cache() / NAME
    return built if built.is_file() else None


def lacking() -> Lack | None:
    """Why ways cannot be slow here; None if they can, maybe once the server is built."""
    if importlib.util.find_spec("toxiproxy") is None:
        return Lack(f"the package {CLIENT} is missing", mend=f"pip install {CLIENT}")
    if found() is not None:
        return None
    chosen = os.environ.get(CHOICE)
    if chosen:
        return Lack(f"{CHOICE} names {chosen}, which is no program", mend=f"unset {CHOICE}")
    if shutil.which("go") is None:
        return Lack(f"{NAME} is missing, and Go, which builds it", package="golang-go")
    return None


def ensure(say: Callable[[str], None]) -> Path:
    """The server, built where there is none.

    Raises:
        EnvironmentUnavailable: it cannot be had; says what helps.
    """
    lack = lacking()
    if lack is not None:
        raise EnvironmentUnavailable(f"no way can be slow here: {lack}", lack)
    here = found()
    if here is not None:
        return here
    folder = cache()
    folder.mkdir(parents=True, exist_ok=True)
    fd = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)  # one process builds, the others wait for it
        if found() is None:
            say(f"building toxiproxy {VERSION}, once")
            _build(folder)
    finally:
        os.close(fd)
    return folder / NAME


def described(server: Path) -> str:
    """A server by its path and the SHA-256 of its bytes."""
    return f"{server}, sha256 {hashlib.sha256(server.read_bytes()).hexdigest()[:16]}"


def _build(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".build-", dir=folder) as name:
        # Without C, so that it runs in every image.
        env = {**os.environ, "GOBIN": name, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod",
               "GOSUMDB": "off"}  # fmt: skip
        _go(["go", "install", "-trimpath", f"{MODULE}/cmd/server@{VERSION}"], env)
        made = Path(name, "server")
        if sources(_go(["go", "version", "-m", str(made)], env)) != SOURCES:
            raise EnvironmentUnavailable(
                f"what Go built of {MODULE} {VERSION} is not of the source that is pinned"
            )
        made.replace(folder / NAME)


def sources(said: str) -> str:
    """A digest of the modules of a program, with their versions and digests, from ``go version
    -m``."""
    words = (line.split() for line in said.splitlines())
    modules = sorted(" ".join(of[1:]) for of in words if of[:1] in (["mod"], ["dep"]))
    return hashlib.sha256("\n".join(modules).encode()).hexdigest()


def _go(command: list[str], env: dict[str, str]) -> str:
    try:
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentUnavailable(f"toxiproxy cannot be built: {error}") from None
    if done.returncode != 0:
        why = (done.stderr.strip() or str(done.returncode)).splitlines()[-1]
        raise EnvironmentUnavailable(
            f"toxiproxy cannot be built: {why}",
            Lack(f"toxiproxy cannot be built ({why})", mend=f"{CHOICE}=PATH names a server"),
        )
    return done.stdout
