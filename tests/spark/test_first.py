"""x"""

import sys

sys.path.insert(0, "/work/h2/tests/unit/checkers")
import pytest

pytestmark = pytest.mark.spark


def test_vectors(spark, tmp_path):
    from engines import Case, assert_equal
    from history_recorder import Recorder
    from test_durability_vectors import VECTORS

    cases = {}
    for name, steps, *_ in VECTORS:
        r = Recorder()
        for s in steps:
            s(r)
        cases[name] = Case(r.history)

    out = assert_equal(spark, tmp_path, cases)
    print({k: v.valid for k, v in out.items()})
