"""`cutaway config`: make and check a cutaway.toml."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from cutaway.cli.terminal import say, warn
from cutaway.errors import ConfigError

app = typer.Typer(rich_markup_mode=None, help="Make or check a cutaway.toml.")


@app.command()
def check(
    path: Annotated[Path | None, typer.Argument(help="The file; without it, the one that a run would use.")] = None,
) -> None:
    """Say whether a config is right, and what it sets."""
    from cutaway.config import check_served, config_paths, find_config, load_config, settings

    found = path or find_config()
    if found is None:
        say("no config; looked at: " + ", ".join(str(p.absolute()) for p in config_paths()))
        return
    config = load_config(found, warn)
    check_served(config, str(found))
    say(f"{found}: right")
    parts: list[tuple[str, Any]] = [("", config)]
    parts += [(f"{name}.", getattr(config, name)) for name in ("sampling", "server", "limits", "logging", "telemetry")]
    parts += [(f"models.{number}.", model) for number, model in enumerate(config.models)]
    for prefix, section in parts:
        said = {f.name for f in dataclasses.fields(section) if getattr(section, f.name) != f.default}
        for key, value in settings(section).items():
            if key in said:
                print(f"{prefix}{key} = {'(not shown)' if key == 'api_keys' else repr(value)}")
    for alias, target in (config.aliases or {}).items():
        print(f"aliases.{alias} = {target!r}")


@app.command()
def init(
    path: Annotated[Path | None, typer.Argument(help="Where; without it, cutaway.toml here.")] = None,
) -> None:
    """Write a config in which every line is commented out. Never over one that is there."""
    from cutaway.config import EXAMPLE, FILE_NAME

    target = path or Path(FILE_NAME)
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(EXAMPLE)
    except FileExistsError:
        raise ConfigError(f"{target} is there already", hint="it was left as it is") from None
    say(f"wrote {target}")
