"""The image that containers of the docker environment are made from.

Its name ends with a hash of all that goes into it, so an image that is there is the right one, and
one that is not there is built: from a base of Debian, wheels that the host's pip fetches by the
project's pins, the reference and the agent. Nothing is fetched from a package index inside the
build; Debian's own packages are, by the sources that the base names.

Run as ``python -m maxq.harness.environments.engine.image build [--base-image IMAGE]``.
"""

import argparse
import hashlib
import io
import os
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from maxq.harness.contracts.environment import EnvironmentUnavailable, Lack
from maxq.harness.environments.engine.client import INSTEAD, Engine, EngineFailed, connect

MAXQ = Path(__file__).parents[3]  # the package; in a checkout, links
CHECKOUT = MAXQ.parent
PACKED = Path(__file__).parent / "packed"
DOCKERFILE, CONSTRAINTS = "docker/reference/Dockerfile", "constraints.txt"
LAYER = "docker/{}/Dockerfile"
NAME = "maxq-reference"
# The index of all architectures, as it was when it was chosen: the same bytes for everybody. What
# Debian has mended since comes with the packages that the build installs.
PUBLIC_BASE = (
    "debian:bookworm-slim@sha256:4724b8cc51e33e398f0e2e15e18d5ec2851ff0c2280647e1310bc1642182655d"
)
HOME_MADE_BASE = "maxq-base:bookworm"  # what docker/debootstrap-base makes
# Of the packages that are pinned, what the reference needs, and what speaks to toxiproxy.
NEEDS = ("msgspec", "toxiproxy-python", "future", "requests", "certifi", "charset-normalizer",
         "idna", "urllib3")  # fmt: skip
PYTHONS = ("3.11", "3.12", "3.13")  # of Debian releases that a base may be
HELPER = ("__init__", "environments/__init__", "environments/machines/__init__",
          "environments/machines/container_agent", "environments/machines/packet_filter",
          "environments/machines/machine_agent", "environments/machines/rights",
          "environments/machines/clock_reader", "environments/machines/toxics")  # fmt: skip
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
DOWNLOAD_TIMEOUT_S = 300
HASH_LENGTH = 12
BUILD = "python -m maxq.harness.environments.engine.image build"


def quiet(line: str) -> None:
    """Say nothing."""


def ensure_image(
    engine: Engine, base: str | None, say: Callable[[str], None], layer: str = ""
) -> str:
    """The name of the image, built if it is not there.

    Args:
        base: an image of the engine or one that it can pull; None: the home-made one if the
            engine has it, else the public one.
        say: called with what is going on.
        layer: what is built upon it: the folder of a Dockerfile; empty: nothing.

    Raises:
        EnvironmentUnavailable: it cannot be built; says why and what helps.
    """
    base = base or default_base(engine)
    sources = inputs()
    tag = tag_of(sources, base)
    try:
        if not engine.has_image(tag):
            say(f"building image {tag} from {base}")
            _ensure_base(engine, base, say)
            context = pack({**sources, **wheels(sources)})
            engine.build(tag, context, {"BASE": base, **_proxies()}, say)
        return _ensure_layer(engine, tag, layer, say) if layer else tag
    except EngineFailed as error:
        lack = Lack(str(error), mend=f"`{BUILD}` shows all of it")
        raise EnvironmentUnavailable(f"docker: {error}; {INSTEAD}", lack) from None


def _ensure_layer(engine: Engine, machine: str, layer: str, say: Callable[[str], None]) -> str:
    """What is built upon the image of a machine."""
    sources = {"Dockerfile": _source(LAYER.format(layer))}
    tag = tag_of(sources, machine, name=f"maxq-{layer}")
    if not engine.has_image(tag):
        say(f"building image {tag} from {machine}")
        engine.build(tag, pack(sources), {"MACHINE": machine, **_proxies()}, say)
    return tag


def _proxies() -> dict[str, str]:
    return {name: os.environ[name] for name in PROXIES if name in os.environ}


def default_base(engine: Engine) -> str:
    """What to build from by default: what was made on this machine for that purpose."""
    return HOME_MADE_BASE if engine.has_image(HOME_MADE_BASE) else PUBLIC_BASE


def _ensure_base(engine: Engine, base: str, say: Callable[[str], None]) -> None:
    if engine.has_image(base):
        return
    say(f"pulling {base}")
    try:
        engine.pull(base)
    except EngineFailed as error:
        raise EnvironmentUnavailable(
            f"docker: the base image is not there and cannot be had ({error}); name one that is by "
            f"--base-image, or make one as root by docker/debootstrap-base; {INSTEAD}",
            Lack(
                f"the engine has no base image and cannot pull {base}",
                mend="docker/debootstrap-base makes one (as root)",
            ),
        ) from None


def inputs() -> dict[str, bytes]:
    """All that is copied into the image but the wheels, by path in the build.

    Raises:
        EnvironmentUnavailable: the packages were copied from somewhere without what they need.
    """
    found = {"Dockerfile": _source(DOCKERFILE)}
    modules = [MAXQ / "__init__.py"]
    modules += [path for of in ("*.py", "*.tsv") for path in (MAXQ / "reference").rglob(of)]
    modules += [MAXQ / "harness" / f"{name}.py" for name in HELPER]
    for module in modules:
        found[f"lib/maxq/{module.relative_to(MAXQ).as_posix()}"] = module.read_bytes()
    pins = requirements(_source(CONSTRAINTS).decode(), NEEDS)
    return {**found, "wheels/requirements.txt": pins.encode()}


def _source(path: str) -> bytes:
    """A file of the checkout, or its copy in an installed wheel (see `pyproject.toml`)."""
    for place in (CHECKOUT / path, PACKED / path):
        if place.is_file():
            return place.read_bytes()
    raise EnvironmentUnavailable(
        f"docker: {path} is not beside the packages, and an image is built from it: install Max-Q "
        f"from its wheel or run from a checkout; {INSTEAD}",
        Lack(f"{path} is not beside the packages", mend="run from a checkout"),
    )


def requirements(constraints: str, names: tuple[str, ...]) -> str:
    """The pins of some packages, with their hashes, from those of all."""
    blocks = re.split(r"(?m)^(?=[A-Za-z0-9])", constraints)
    chosen = {b.split("==")[0]: b for b in blocks if "==" in b}
    return "".join(chosen[name] for name in names)


def tag_of(sources: Mapping[str, bytes], base: str, name: str = NAME) -> str:
    """The image's name: it changes with everything that goes into it."""
    digest = hashlib.sha256(base.encode())
    for path, data in sorted(sources.items()):
        digest.update(f"\0{path}\0{len(data)}\0".encode() + data)
    return f"{name}:{digest.hexdigest()[:HASH_LENGTH]}"


def wheels(sources: Mapping[str, bytes]) -> dict[str, bytes]:
    """Wheels for each Python that a base may have, fetched by this machine's pip.

    Raises:
        EnvironmentUnavailable: pip cannot get them.
    """
    with tempfile.TemporaryDirectory(prefix="maxq-wheels-") as name:
        folder = Path(name)
        pins = folder / "requirements.txt"
        pins.write_bytes(sources["wheels/requirements.txt"])
        for version in PYTHONS:
            _download(pins, folder, version)
        return {f"wheels/{p.name}": p.read_bytes() for p in sorted(folder.glob("*.whl"))}


def _download(pins: Path, folder: Path, version: str) -> None:
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes",
        "--only-binary", ":all:", "--implementation", "cp", "--python-version", version,
        "--platform", f"manylinux2014_{platform.machine()}",
        "--dest", str(folder), "--requirement", str(pins),
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=False
        )
        why = "" if done.returncode == 0 else done.stderr.strip()[-400:] or str(done.returncode)
    except subprocess.TimeoutExpired as error:
        why = str(error)
    if why:
        raise EnvironmentUnavailable(
            f"docker: pip cannot fetch what the reference needs for Python {version} ({why}); "
            f"{INSTEAD}",
            Lack(
                f"pip cannot fetch what the reference needs for Python {version} ({why})",
                mend=f"`{BUILD}` shows all of it",
            ),
        )


def pack(files: Mapping[str, bytes]) -> bytes:
    """A tar archive; equal files make an equal archive, so that the engine's cache serves."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, data in sorted(files.items()):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m maxq.harness.environments.engine.image")
    parser.add_argument("do", choices=["build"])
    parser.add_argument("--base-image", help=f"image to build from; public: {PUBLIC_BASE}")
    arguments = parser.parse_args()
    try:
        tag = ensure_image(connect(), arguments.base_image, lambda t: print(t, file=sys.stderr))
    except EnvironmentUnavailable as error:
        sys.exit(str(error))
    print(tag)


if __name__ == "__main__":
    main()
