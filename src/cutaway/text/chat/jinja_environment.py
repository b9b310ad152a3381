"""The Jinja environment that Hugging Face documents for chat templates, sandboxed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import do_join
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from cutaway.text.chat.clock import now


class RefusedError(jinja2.TemplateError):
    """The template called `raise_exception`."""


class GenerationBlocks(Extension):
    """``{% generation %}`` … ``{% endgeneration %}``: the assistant's text. Here it is treated like the rest."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it so

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_written"), [], [], body).set_lineno(line)

    def _written(self, caller: Callable[[], str]) -> str:
        return caller()


class _JoiningGenerator(CodeGenerator):
    """Joins ``a ~ b`` with the environment's `concat`, like macros and the whole template."""

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802 - jinja2's visitor
        self.write("concat(map(str, (")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write(")))")


def make_environment(join: Callable[[Iterable[str]], str]) -> ImmutableSandboxedEnvironment:
    """The environment: trimmed blocks, loop controls, generation blocks, and the functions that templates expect.

    Args:
        join: joins the output of a template, a macro or a ``set`` block.
    """

    @jinja2.pass_eval_context
    def joined(context: nodes.EvalContext, values: Any, between: str = "", attribute: Any = None) -> str:
        return join([do_join(context, values, between, attribute)])

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlocks, loopcontrols]
    )
    environment.code_generator_class = _JoiningGenerator
    environment.concat = join  # type: ignore[method-assign]
    environment.filters["join"] = joined
    environment.filters["tojson"] = lambda *values, **options: join([to_json(*values, **options)])
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = _strftime_now
    return environment


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON without HTML escapes and with all of Unicode, unlike Jinja's own filter."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators, sort_keys=sort_keys)
    # The noncharacters are kept: see `guarded`.
    return re.sub(r"[^\x00-\x7f\ufdd0-\ufdef]+", _escaped, text) if ensure_ascii else text


def _escaped(match: re.Match[str]) -> str:
    return json.dumps(match[0])[1:-1]


def _refuse(message: str) -> None:
    raise RefusedError(message)


def _strftime_now(format: str) -> str:
    return now().strftime(format)
