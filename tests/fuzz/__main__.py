"""Runs the fuzzer: ``python -m tests.fuzz --minutes 30``.

It starts nodes of its own on 127.0.0.1, sends hostile frames to every port, and ends them. Exit
code 1: something is wrong, and the lines say what and after which input. The same seed sends the
same input.
"""

import sys
from pathlib import Path

# Modules of tests are found by their names alone, as under pytest.
HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support"), str(HERE.parent)]

if __name__ == "__main__":
    from fuzz_command import main

    main()
