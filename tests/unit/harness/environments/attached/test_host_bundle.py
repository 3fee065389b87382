"""What is sent to hosts of others: it runs on what they have."""

import ast
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from maxq.harness.environments.attached.host_boot import LEAST
from maxq.harness.environments.attached.host_bundle import BOOT, LOAD, MAXQ, PARTS, bundle


def test_the_same_sources_are_the_same_bytes() -> None:
    first = bundle()
    bundle.cache_clear()
    assert bundle() == first


@pytest.mark.parametrize(
    "part",
    [*PARTS, *(str(text.relative_to(MAXQ).with_suffix("")) for text in (BOOT, LOAD))],
)
def test_an_old_python_can_read_it(part: str) -> None:
    """Its grammar; and no annotation is evaluated there, which it could not."""
    tree = ast.parse((MAXQ / f"{part}.py").read_text(), feature_version=LEAST)
    froms = [node.module for node in tree.body if isinstance(node, ast.ImportFrom)]
    unions = [node for node in ast.walk(tree) if isinstance(node, ast.BinOp)
              and isinstance(node.op, ast.BitOr) and isinstance(node.right, ast.Constant)
              and node.right.value is None]  # fmt: skip
    assert not unions or "__future__" in froms


def test_it_needs_nothing_that_a_host_lacks(tmp_path: Path) -> None:
    """Alone in a folder, without the packages of this interpreter."""
    sent = bundle()
    file = tmp_path / "agent.pyz"
    file.write_bytes(sent)
    names = zipfile.ZipFile(io.BytesIO(sent)).namelist()
    assert "__main__.py" in names
    code = "import sys; sys.path.insert(0, sys.argv[1]); from maxq.harness.environments.attached " \
           "import host_agent; print(host_agent.__file__)"  # fmt: skip
    command = [sys.executable, "-I", "-S", "-c", code, str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.startswith(str(file)), done.stderr
