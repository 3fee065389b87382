"""The command ``maxq schema``: JSON schemas of the files that programs read and write."""

from collections.abc import Callable
from typing import Any

import click
import msgspec

from maxq.harness.cli.given.param_types import Name
from maxq.harness.contracts.terminal import echo
from maxq.harness.experiments.campaign import Campaign
from maxq.harness.run.files import result_file
from maxq.harness.schedule.format import VERSION, Item

DRAFT = "https://json-schema.org/draft/2020-12/schema"
CAMPAIGN = "maxq:campaign:1"
Schema = dict[str, Any]


def results() -> Schema:
    """Of ``results.json``."""
    return _titled(result_file.SCHEMA, msgspec.json.schema(result_file.ResultFile))


def schedule() -> Schema:
    """Of one line of a schedule, the first of which is a header."""
    return _titled(f"maxq:schedule:{VERSION}", msgspec.json.schema(Item))


def campaign() -> Schema:
    """Of a campaign's TOML file, where one text will do for a list of one."""
    found = msgspec.json.schema(Campaign)
    for name, field in found["$defs"]["Cell"]["properties"].items():
        if field.get("type") == "array":
            found["$defs"]["Cell"]["properties"][name] = {"anyOf": [{"type": "string"}, field]}
    return _titled(CAMPAIGN, found)


SCHEMAS: dict[str, Callable[[], Schema]] = {
    "results": results, "schedule": schedule, "campaign": campaign,
}  # fmt: skip


def _titled(name: str, found: Schema) -> Schema:
    return {"$schema": DRAFT, "$id": name, **found}


@click.command("schema")
@click.argument("kind", type=Name(SCHEMAS, "KIND"))
def schema_command(kind: str) -> int:
    """Print the JSON schema of a file: results, schedule (each of its lines) or campaign.

    The number at the end of its `$id` goes up when a field goes or changes its meaning.
    """
    echo(msgspec.json.format(msgspec.json.encode(SCHEMAS[kind]()), indent=2).decode())
    return 0
