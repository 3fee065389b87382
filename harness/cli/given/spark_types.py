"""What options say of Spark: sizes, and settings by its own names."""

import re
from typing import Any

import click

SIZE = re.compile(r"[1-9][0-9]{0,6}[mg]")
SETTING = re.compile(r"(spark\.[A-Za-z0-9._-]+)=(.*)", re.DOTALL)
NOT_OURS = {"spark.master": "--master", "spark.driver.memory": "--driver-memory",
            "spark.executor.memory": "--executor-memory"}  # fmt: skip


class SparkSize(click.ParamType[str]):
    """How much memory a JVM of Spark may take: ``3g``, ``1500m``."""

    name = "size"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        if SIZE.fullmatch(str(value)) is None:
            self.fail(f"{value!r} is no size such as 3g or 1500m", param, ctx)
        return str(value)


class SparkSetting(click.ParamType[tuple[str, str]]):
    """A setting: ``spark.local.dir=/big``."""

    name = "setting"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        found = SETTING.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is no setting; write spark.KEY=VALUE", param, ctx)
        if option := NOT_OURS.get(found[1]):
            self.fail(f"{found[1]} is what {option} says", param, ctx)
        return found[1], found[2]
