"""The OpenAPI description, generated from the models that validate the requests."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from cutaway.server.route import Route

_ERROR = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "message": {"type": "string"}, "type": {"type": "string"}, "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
            "required": ["message", "type"],
        }
    },
    "required": ["error"],
}  # fmt: skip
_ERRORS = {
    "400": "The request is not valid", "401": "The API key is missing or unknown", "404": "The model was not found",
    "413": "The body is too large", "429": "The caller exceeds its limits",
    "503": "The model is loading, the queue is full, or the server is shutting down",
}  # fmt: skip
_PRIVATE = {"403": "Not for this caller, this page or this host"}


def describe_routes(app: FastAPI, routes: Iterable[Route]) -> None:
    """Set the application's description. The same paths without /v1 are also served and are not listed."""
    schemas: dict[str, Any] = {"Error": _ERROR}
    paths: dict[str, Any] = {}
    for route in routes:
        operation = _operation(route)
        if route.schema is not None:
            operation["requestBody"] = _body(route.schema, schemas)
        paths.setdefault(route.template, {})[route.method.lower()] = operation
    description = {
        "openapi": "3.1.0",
        "info": {"title": app.title, "version": app.version, "description": "See docs/api.md."},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }
    app.openapi = lambda: description  # type: ignore[method-assign]


def _operation(route: Route) -> dict[str, Any]:
    kind = "text/plain" if route.path == "/metrics" else "application/json"
    ok: dict[str, Any] = {"description": "Success", "content": {kind: {}}}
    if route.operation:
        ok["content"][route.dialect.media_type] = {}
    summary = (route.handler.__doc__ or "").strip().splitlines()[0]
    operation: dict[str, Any] = {"summary": summary, "responses": {"200": ok}}
    for status, what in (_ERRORS | (_PRIVATE if route.path.startswith("/x/") else {})).items():
        content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
        operation["responses"][status] = {"description": what, "content": content}
    if named := re.findall(r"{(\w+)}", route.template):
        operation["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in named
        ]
    return operation


def _body(kind: type[BaseModel], schemas: dict[str, Any]) -> dict[str, Any]:
    schema = kind.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(schema.pop("$defs", {}))
    schemas[kind.__name__] = schema
    return {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{kind.__name__}"}}},
    }
