"""`cutaway config`: create and check a cutaway.toml."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from cutaway.cli.terminal import say, warn
from cutaway.errors import ConfigError

app = typer.Typer(rich_markup_mode=None, help="Create or check a cutaway.toml.")


@app.command()
def check(
    path: Annotated[Path | None, typer.Argument(help="The file. [the one that a run would use]")] = None,
) -> None:
    """Check a config and list the values that it sets."""
    from cutaway.config import check_served, config_paths, find_config, load_config, settings

    found = path or find_config()
    if found is None:
        say("there is no config; searched: " + ", ".join(str(p.absolute()) for p in config_paths()))
        return
    config = load_config(found, warn)
    check_served(config, str(found))
    say(f"{found}: valid")
    parts: list[tuple[str, Any]] = [("", config)]
    parts += [(f"{name}.", getattr(config, name)) for name in ("sampling", "server", "limits", "logging", "telemetry")]
    parts += [(f"models.{number}.", model) for number, model in enumerate(config.models)]
    for prefix, section in parts:
        changed = {f.name for f in dataclasses.fields(section) if getattr(section, f.name) != f.default}
        for key, value in settings(section).items():
            if key in changed:
                print(f"{prefix}{key} = {'(not shown)' if key == 'api_keys' else repr(value)}")
    for alias, target in (config.aliases or {}).items():
        print(f"aliases.{alias} = {target!r}")


@app.command()
def init(
    path: Annotated[Path | None, typer.Argument(help="Path of the new file. [cutaway.toml]")] = None,
) -> None:
    """Write an example config in which every line is commented out. An existing file is never overwritten."""
    from cutaway.config import EXAMPLE, FILE_NAME

    target = path or Path(FILE_NAME)
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(EXAMPLE)
    except FileExistsError:
        raise ConfigError(f"{target} already exists", hint="it was not changed") from None
    say(f"wrote {target}")
