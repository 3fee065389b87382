"""What is sent to a host: programs that any Python 3 there can run."""

import io
import zipfile
from functools import cache
from pathlib import Path

MAXQ = Path(__file__).parents[3]
BOOT, LOAD = (Path(__file__).parent / f"host_{name}.py" for name in ("boot", "load"))
PARTS = (
    "harness/environments/attached/host_agent",
    "harness/environments/attached/host_nodes",
    "harness/environments/attached/host_watchdog",
    "harness/environments/machines/frames",
    "harness/environments/machines/machine_agent",
    "harness/environments/machines/packet_filter",
    "harness/environments/machines/rights",
    "harness/environments/process_life",
)
START = "from maxq.harness.environments.attached.host_agent import main\n\nmain()\n"


@cache
def bundle() -> bytes:
    """The agent as a zip file, the same bytes for the same sources."""
    files = {f"maxq/{part}.py": (MAXQ / f"{part}.py").read_text() for part in PARTS}
    folders = {str(above) for name in files for above in Path(name).parents if above.name}
    files |= {f"{folder}/__init__.py": "" for folder in folders}
    files["__main__.py"] = START
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name), files[name], zipfile.ZIP_DEFLATED)
    return out.getvalue()
