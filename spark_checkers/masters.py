"""Where Spark's tasks run: what `--master` may say."""

import re
from collections.abc import Sequence

LOCAL = "local[*]"
LOOPBACK = "127.0.0.1"
YARN = "yarn"
KNOWN = "local[N], local-cluster[N,CORES,MIB], spark://HOST:PORT, yarn or k8s://HOST:PORT"
_N = r"[1-9][0-9]{0,8}"
_HERE = re.compile(
    rf"local(\[(\*|{_N})(\s*,\s*{_N})?\])?|local-cluster\[\s*{_N}\s*(,\s*{_N}\s*){{2}}\]"
)
_HOST = r"([^\s,:/\[\]]+|\[[0-9a-fA-F:.]+\]):([0-9]{1,5})"
_STANDALONE = re.compile(rf"spark://{_HOST}(,{_HOST})*")
_ELSEWHERE = re.compile(rf"{YARN}|k8s://\S+")


def wrong(master: str) -> str:
    """Why Spark cannot take it as a master; empty if it can."""
    known = any(kind.fullmatch(master) for kind in (_HERE, _STANDALONE, _ELSEWHERE))
    if known and all(0 < port < 1 << 16 for _, port in addresses(master)):
        return ""
    return f"{master!r} is no master of Spark; write {KNOWN}"


def embedded(master: str) -> bool:
    """Whether tasks run on this machine, in processes that the session starts and ends."""
    return _HERE.fullmatch(master) is not None


def addresses(master: str) -> Sequence[tuple[str, int]]:
    """Host and port of each standalone master; none of other masters."""
    if _STANDALONE.fullmatch(master) is None:
        return ()
    return [(host.strip("[]"), int(port)) for host, port in re.findall(_HOST, master)]


def on_loopback(master: str) -> bool:
    """Whether nothing of it is beyond this machine."""
    hosts = {host for host, _ in addresses(master)}
    return embedded(master) or (bool(hosts) and hosts <= {LOOPBACK, "localhost"})
