"""Errors as the gateway answers them: `{"error": {"code", "message", "hint"}}`, never with a traceback."""

from __future__ import annotations

import json
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Route

from pegboard.core.errors import ModelError, PegboardError, ToolError, Unavailable
from pegboard.ports.store import StoreError
from pegboard.store.leases import SessionBusy

STATUS: Final = {
    "not_found": 404, "unknown_tool": 404, "permission_denied": 403, "outside_workspace": 403, "conflict": 409,
    "not_unique": 409, "too_large": 413, "too_busy": 429, "budget_exceeded": 429,
}  # fmt: skip
"""Status of a response by an error's code; 400 for any other."""

_CODES: Final = {
    400: "invalid_request", 401: "unauthorized", 403: "forbidden", 404: "not_found", 405: "method_not_allowed",
    409: "conflict", 413: "too_large", 415: "unsupported_media_type", 429: "too_many_requests", 503: "unavailable",
}  # fmt: skip


class TooBusy(Unavailable):
    """As much goes on as the gateway takes at once."""

    default_code = "too_busy"
    default_retryable = True


class Json(JSONResponse):
    """A JSON response; lone surrogates, which JSON may hold and UTF-8 may not, become question marks."""

    def render(self, content: Any) -> bytes:
        """The body."""
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), default=str)
        return text.encode("utf-8", "replace")


def error_response(status: int, code: str, message: str, hint: str = "") -> Json:
    """One error."""
    return Json({"error": {"code": code, "message": message, "hint": hint}}, status)


def refusal(error: HTTPException) -> Response:
    """The response to what starlette or the guard refuses."""
    response = error_response(error.status_code, _CODES.get(error.status_code, "error"), error.detail)
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    return response


async def on_refusal(request: Request, error: Exception) -> Response:
    """See `refusal`."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        # Each method is a route of its own, and starlette names those of the first alone.
        routes = [
            r
            for r in request.app.routes
            if isinstance(r, Route) and r.matches(request.scope)[0] != Match.NONE
        ]
        methods = ", ".join(sorted({method for route in routes for method in route.methods or ()}))
        said = f"{request.url.path} does not take {request.method}; it takes {methods}"
        error = HTTPException(405, said, {"Allow": methods})
    return refusal(error)


def describe_error(error: Exception) -> tuple[int, str, str, str]:
    """Status, code, message and hint of an error of a service."""
    match error:
        case HTTPException():
            return error.status_code, _CODES.get(error.status_code, "error"), error.detail, ""
        case ToolError():
            return STATUS.get(error.code, 400), error.code, error.message, error.hint
        case SessionBusy():
            return 409, "conflict", str(error), "Try again when its run has ended."
        case StoreError():
            return 503, "unavailable", str(error), "Run pegboard doctor on the server."
        case ModelError():
            return 400, "model_error", str(error), "See: pegboard models"
        case _:
            return 400, "invalid_request", str(error), ""


async def on_pegboard_error(request: Request, error: Exception) -> Response:
    """The response to an error of a service."""
    return error_response(*describe_error(error))


async def on_any_error(request: Request, error: Exception) -> Response:
    """The response to what nobody expected; the log of the server has the rest."""
    return error_response(500, "internal_error", "the gateway failed", "See the server's log.")


HANDLERS: Final = {
    HTTPException: on_refusal,
    PegboardError: on_pegboard_error,
    Exception: on_any_error,
}
