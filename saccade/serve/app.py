"""The web application: the routes of the page and of the JSON API, whose OpenAPI is at /api/openapi.json."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi import Path as InPath
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.middleware.trustedhost import TrustedHostMiddleware

from saccade.predict import Predictor
from saccade.serve.access import Access
from saccade.serve.headers import SAFE, SafeHeaders
from saccade.serve.limits import Limits
from saccade.serve.schema import Health, Model, PredictionBody, Problem
from saccade.serve.service import Service

PAGE = {"": "index.html", **{name: name for name in ("page.css", "page.js", "dom.js", "viewer.js")}}
MEDIA_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
WHY = {
    400: "the body is not a whole multipart form",
    401: "without the token that this server asks for",
    403: "sent by a page of another address",
    404: "no such image, or nothing there",
    408: "the upload was too slow",
    411: "no Content-Length",
    413: "too many bytes or pixels",
    415: "not an image, or of a kind that cannot be read",
    422: "no file, an empty or damaged one, or one this model cannot take",
    500: "a fault of this server",
    503: "too many requests, too little memory or a stuck worker; Retry-After says when to come again",
    504: "looking took too long",
}
FILE_FORM = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": {"type": "string", "format": "binary", "description": "an image"}},
                }
            }
        },
    }
}

Token = Annotated[str, InPath(pattern="^[A-Za-z0-9_-]{22}$", description="the image's id, as the prediction has it")]
Number = Annotated[int, InPath(ge=0, le=2**31 - 1)]


def _service(request: Request) -> Service:
    return request.app.state.service


Served = Annotated[Service, Depends(_service)]


def _problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    problems: dict[int | str, dict[str, Any]] = {
        status: {"model": Problem, "description": WHY[status]} for status in statuses
    }
    if 503 in problems:
        problems[503]["headers"] = {"Retry-After": {"description": "seconds", "schema": {"type": "integer"}}}
    return problems


def _pictures(media_type: str) -> dict[int | str, dict[str, Any]]:
    schema = {"type": "string", "format": "binary"}
    return {
        200: {"content": {media_type: {"schema": schema}}, "description": "the picture"},
        **_problems(404, 422, 504),
    }


api = APIRouter(prefix="/api", responses=_problems(401, 500, 503))


@api.post("/predict", openapi_extra=FILE_FORM, responses=_problems(400, 403, 404, 408, 411, 413, 415, 422, 504))
async def predict(request: Request, service: Served, model: str | None = None) -> PredictionBody:
    """What the model says of an image, and where it looked."""
    return await service.predict(request, model)


@api.get("/example", response_class=Response, responses=_problems(404))
async def example(service: Served) -> Response:
    """An image to try."""
    return Response(service.example(), media_type="application/octet-stream")


@api.get("/health")
async def health(service: Served) -> Health:
    """Whether there is room for another request; 503 if the worker is stuck."""
    return service.health()


@api.get("/model")
async def model(service: Served) -> Model:
    """What is served, and what is taken."""
    return service.model()


@api.get("/images/{token}/tiles/{level}/{x}/{y}.jpg", response_class=Response, responses=_pictures("image/jpeg"))
async def tile(service: Served, token: Token, level: Number, x: Number, y: Number) -> Response:
    """A tile of an image that was predicted."""
    return _picture(await service.tile(token, level, x, y), "image/jpeg")


@api.get("/images/{token}/crops/{number}.png", response_class=Response, responses=_pictures("image/png"))
async def crop(service: Served, token: Token, number: Number) -> Response:
    """What is in a box of an image that was predicted."""
    return _picture(service.crop(token, number), "image/png")


def _picture(content: bytes, media_type: str) -> Response:
    return Response(content, media_type=media_type, headers={"Cache-Control": "private, max-age=3600, immutable"})


def create_app(
    predictor: Predictor,
    *,
    name: str,
    limits: Limits | None = None,
    hosts: Sequence[str] = ("*",),
    token: str | None = None,
    others: Mapping[str, Predictor] | None = None,
    example: Path | None = None,
) -> FastAPI:
    """The application that serves `predictor` under a `name`, to requests for `hosts` only.

    token:   what every request must bring along; without it, none is asked for.
    others:  models to compare with, by name.
    example: an image that the page offers to try.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.service = service = Service({name: predictor, **(others or {})}, limits or Limits(), example)
        sweeper = asyncio.create_task(service.sweep_for_ever())
        yield
        sweeper.cancel()
        service.close()

    # The pages that FastAPI makes of an OpenAPI load their scripts from elsewhere.
    app = FastAPI(title="Saccade", openapi_url="/api/openapi.json", docs_url=None, redoc_url=None, lifespan=lifespan)
    app.include_router(api)
    return finish_app(app, PAGE, hosts, token)


def finish_app(app: FastAPI, pages: Mapping[str, str], hosts: Sequence[str], token: str | None) -> FastAPI:
    """Add the pages (address → file), who may ask, safe headers, and errors that say what is wrong."""
    app.add_exception_handler(RequestValidationError, _say_what_is_wrong)
    app.add_exception_handler(Exception, _say_that_it_failed)
    app.add_middleware(Access, token=token)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)
    app.add_middleware(SafeHeaders)
    for address, file in pages.items():
        app.add_route(f"/{address}", _page(file), include_in_schema=False)
    return app


async def _say_what_is_wrong(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    said = "; ".join(f"{problem['loc'][-1]}: {problem['msg']}" for problem in error.errors())
    return JSONResponse({"detail": said}, status_code=422)


async def _say_that_it_failed(request: Request, error: Exception) -> Response:
    # Made outside of every middleware, so the headers are its own; the error itself is passed to the server's log.
    headers = {**SAFE, "Cache-Control": "no-store"}
    return JSONResponse({"detail": "the server failed: its log says why"}, status_code=500, headers=headers)


def _page(name: str) -> Callable[[Request], Awaitable[Response]]:
    content = (resources.files("saccade.serve") / "page" / name).read_bytes()

    async def page(request: Request) -> Response:
        return Response(content, media_type=MEDIA_TYPES[name.rpartition(".")[2]])

    return page
