"""What Spark says of a failure, in one sentence: where, what, and what to do about it.

Spark has no codes for that, so its words are searched. What is not known here is said as Spark says
it, without the trace, which `maxq check --debug` prints.
"""

import re

NEEDED = ("msgspec", "numpy", "pyarrow")  # by the checks, of the Python of a worker
PYTHON = f"set PYSPARK_PYTHON to a Python there that has {', '.join(NEEDED)}"
FEWER = (
    "run fewer tasks at a time (--master 'local[1]', of a cluster spark.executor.cores), "
    "or give more memory"
)
KNOWN = (
    (r"No module named '(\w+)", rf"the Python of a worker has no \1: {PYTHON}"),
    (r'Cannot run program "([^"]*)"', rf"there is no Python \1: {PYTHON}"),
    (r"PYTHON_VERSION_MISMATCH\D*version:? ([\d.]+)\D*([\d.]+\d)",
     rf"the Python of a worker is \1, and of this process \2: {PYTHON}"),
    (r"Python worker exited unexpectedly|Cannot allocate memory|ExecutorLostFailure",
     f"a worker ended in mid-task, as the system ends what takes too much memory: {FEWER}"),
    ("MemoryError", f"no memory was left: {FEWER}"),
    (r"No space left on device",
     "the disk is full where Spark shuffles (TMPDIR, of a cluster spark.local.dir): "
     "free some of it, or name a larger one"),
    (r"UnsupportedClassVersionError", "Java is too old: Spark needs 17 or later; set JAVA_HOME"),
    (r"InvalidClassException|serialVersionUID",
     "the cluster has another release of Spark than pyspark here: install the same"),
)  # fmt: skip
MORE = "; --debug prints all that Spark wrote"
GONE = f"its JVM has ended, as the system ends what takes too much memory: {FEWER}"
_TASK = re.compile(r"Task (\d+) in stage (\d+)[.\d]* failed (\d+) times?")
_HOST = re.compile(r"\(TID \d+\) \((\S+) executor (?!driver)")
_CAUSE = re.compile(r"\b(?:[a-z]\w*\.)+([A-Z]\w*(?:Error|Exception)): ")
_CAUSED_BY = re.compile(r"^Caused by: (?:[\w$]+\.)*([A-Z]\w*(?:Error|Exception)): (.*)$", re.M)
_PYTHON_TRACE, _JAVA_TRACE = "Traceback (most recent call last):", "\n\tat "
_DIED = "Exception in thread "


def in_a_sentence(message: str) -> str:
    """What Spark says of a job that failed: which task of which stage, and why."""
    task, host = _TASK.search(message), _HOST.search(message)
    why = _known(message) or (_cause(message) + MORE if _JAVA_TRACE in message else GONE)
    if task is None:
        return f"Spark: {why}"
    times = "once" if task[3] == "1" else f"{task[3]} times"
    last = f", last on {host[1]}" if host else ""
    return f"Spark: task {task[1]} of stage {task[2]} failed {times}{last}: {why}"


def of_a_start(message: str, written: str, master: str) -> str:
    """Why no session began.

    Args:
        message: of what was raised; empty: the JVM ended before it could be asked.
        written: by the JVM.
        master: where tasks were to run.
    """
    words = message or _last_words(written)
    why, deeper = _cause(words), _CAUSED_BY.findall(words)
    if deeper and deeper[-1][1] not in why:
        why += f" ({': '.join(deeper[-1])})"
    return f"Spark does not start with --master {master}: {_known(words) or why + MORE}"


def _last_words(written: str) -> str:
    """Of what a JVM wrote, what it died of."""
    _, died, after = written.rpartition(_DIED)
    return died + after if died else after.strip().rpartition("\n")[2]


def _known(message: str) -> str:
    """A cause that can be helped, with what to do; empty where it is another."""
    head = message.partition(_JAVA_TRACE)[0]
    for pattern, said in KNOWN:
        if found := re.search(pattern, head):
            return found.expand(said)
    return ""


def _cause(message: str) -> str:
    """The cause that is named last before the trace of the JVM."""
    head = message.partition(_JAVA_TRACE)[0]
    _, in_python, raised = head.rpartition(_PYTHON_TRACE)
    if in_python:
        lines = (line for line in raised.splitlines() if line and not line.startswith(" "))
        return f"a task raised {next(lines, 'an error')}"
    _, *causes = _CAUSE.split(head)
    name, said = causes[-2:] if causes else ("", message)
    said = said.strip().partition("\n")[0].rstrip(".")
    return (
        f"{name}: {said}"
        if name not in ("", "SparkException")
        else said or "it ended without a word"
    )
