"""Max-Q from its wheel, in a project that is somebody else's and knows no checkout.

The wheel is built from the sdist, as `python -m build` does, and the sdist's own tests run there.
Dependencies are those of this environment, by a path file, so nothing is fetched: path files are
not followed from there, so the checkout stays out of sight.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MISSING = [m for m in ("hatchling", "pip") if importlib.util.find_spec(m) is None]
pytestmark = [
    pytest.mark.wheel,
    pytest.mark.skipif(bool(MISSING), reason=f"no {' and no '.join(MISSING)} to build a wheel"),
]
OURS = """
import json
import maxq
from maxq.harness.environments.engine import image
from maxq.harness.run import provenance
print(json.dumps({
    "maxq": maxq.__file__,
    "image": sorted(image.inputs()), "tag": image.tag_of(image.inputs(), "x"),
    "identity": provenance.identity(),
}))
"""
TEST = """
def test_it(maxq):
    outcome = maxq.run(workload="queue", nemesis="kill", time_limit="3s", env="simulated", seed=3)
    assert outcome
    assert "wheel" in outcome.commit

def test_bug(maxq):
    assert maxq.run(nemesis=["kill", "partition"], time_limit="30s", env="simulated", seed=1,
                    workload="queue", mutant="ack_without_replicas")
"""


def done(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYTEST", "PIP"))}
    return subprocess.run(
        [str(w) for w in words], cwd=cwd, env=plain, capture_output=True, text=True, timeout=120
    )


def built(kind: str, dist: Path, *, source: Path) -> Path:
    """The sdist or the wheel of a tree."""
    told = done(sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", dist, cwd=source)
    assert told.returncode == 0, told.stderr
    (found,) = dist.glob("*.tar.gz" if kind == "sdist" else "*.whl")
    return found


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the sdist holds."""
    home = tmp_path_factory.mktemp("sdist")
    with tarfile.open(built("sdist", home, source=ROOT)) as archive:
        archive.extractall(home, filter="data")
    (unpacked,) = home.glob("maxq-*/")
    return unpacked


@pytest.fixture(scope="module")
def project(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with an environment of its own, in a git repository of its own."""
    home = tmp_path_factory.mktemp("project")
    wheel = built("wheel", home / "dist", source=source)
    venv.create(home / ".venv", with_pip=False, symlinks=True)
    installed = done(sys.executable, "-m", "pip", "--python", home / ".venv/bin/python", "install",
                     "--quiet", "--no-deps", "--no-index", wheel, cwd=home)  # fmt: skip
    assert installed.returncode == 0, installed.stderr
    (theirs,) = (home / ".venv" / "lib").glob("python*/site-packages")
    (theirs / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for words in (("init", "-q"), ("-c", "user.name=a", "-c", "user.email=a@example.org", "commit",
                                   "-q", "--allow-empty", "-m", "theirs")):  # fmt: skip
        assert done("git", *words, cwd=home).returncode == 0
    (home / "test_cluster.py").write_text(TEST)
    return home


def test_the_wheel_takes_one_name_of_all(project: Path) -> None:
    (wheel,) = (project / "dist").glob("*.whl")
    names = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in names if not name.endswith(".dist-info")} == {"maxq"}


def test_a_wheel_of_the_sdist_is_one_of_the_checkout(project: Path, tmp_path: Path) -> None:
    names = []
    for wheel in (*(project / "dist").glob("*.whl"), built("wheel", tmp_path, source=ROOT)):
        opened = zipfile.ZipFile(wheel)
        names.append({name: opened.getinfo(name).CRC for name in opened.namelist()})
    assert names[0] == names[1]


def test_tests_of_the_sdist_pass_there(project: Path, source: Path) -> None:
    """Some fast ones; what holds for a checkout only is skipped."""
    histories = [f"tests/unit/histories/test_{of}.py" for of in ("edn", "jsonl", "store", "tables")]
    chosen = ("tests/tidy/test_site.py", *histories, "tests/unit/reference/test_settings.py")
    told = done(project / ".venv/bin/python", "-m", "pytest", "-p", "no:cacheprovider", *chosen,
                cwd=source)  # fmt: skip
    assert re.search(r"\d\d+ passed, 2 skipped", told.stdout), told.stdout + told.stderr
    assert "failed" not in told.stdout


def test_everything_is_in_the_wheel(project: Path) -> None:
    told = done(project / ".venv/bin/python", "-c", OURS, cwd=project)
    assert told.returncode == 0, told.stderr
    seen = json.loads(told.stdout)
    assert Path(seen["maxq"]).is_relative_to(project / ".venv")
    assert "Dockerfile" in seen["image"]
    assert "lib/maxq/reference/__main__.py" in seen["image"]
    here = done(sys.executable, "-c", OURS, cwd=ROOT)
    assert seen["tag"] == json.loads(here.stdout)["tag"]  # one image for both
    # The repository around it is somebody else's: its commit says nothing of this source.
    assert seen["identity"]["commit"] == ""
    assert "+wheel." in seen["identity"]["version"]


def test_the_plugin_runs_clusters_there(project: Path) -> None:
    told = done(project / ".venv/bin/python", "-m", "pytest", "-p", "no:cacheprovider", cwd=project)
    assert "1 failed, 1 passed" in told.stdout, told.stdout + told.stderr
    assert "<maxq INVALID>" in told.stdout
    assert re.search(r"repeat: .*maxq.* test --env simulated", told.stdout), told.stdout


def test_a_run_repeats_from_the_wheel_as_from_the_checkout(project: Path, tmp_path: Path) -> None:
    words = ("test", "--env", "simulated", "--workload", "queue", "--nemesis", "kill", "--seed",
             "4", "--time-limit", "3s", "--store")  # fmt: skip
    wheel = done(project / ".venv/bin/maxq", *words, tmp_path / "wheel", cwd=project)
    here = done(sys.executable, "-m", "maxq.harness.cli.main", *words, tmp_path / "here", cwd=ROOT)
    assert (wheel.returncode, here.returncode) == (0, 0), wheel.stderr + here.stderr
    first, second = (tmp_path / name / "latest" / "history.jsonl" for name in ("wheel", "here"))
    assert first.read_bytes() == second.read_bytes()
