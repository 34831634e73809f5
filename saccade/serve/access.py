"""Who may ask: the server's own page and programs, with the token where there is one; never pages of other sites."""

import secrets

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

COOKIE = "saccade-token"  # images of a page are asked for without headers of its own
DEFAULT_PORTS = {"http": ":80", "https": ":443"}


class Access:
    """Passes to `app` what may be asked."""

    def __init__(self, app: ASGIApp, token: str | None = None):
        self.app, self.token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the application does, or refuse."""
        refusal = self._refuse(Request(scope)) if scope["type"] == "http" else None
        await (refusal or self.app)(scope, receive, send)

    def _refuse(self, request: Request) -> Response | None:
        if self.token is not None and (asked := _ask_for_token(request, self.token)):
            return asked
        # A page elsewhere can make a browser post here: it could not read the answer, but it would keep the model busy.
        if request.method not in ("GET", "HEAD") and _is_from_elsewhere(request):
            why = "requests are taken from this server's own page and from programs, not from pages of other addresses"
            return JSONResponse({"detail": why}, status_code=403)
        return None


def _ask_for_token(request: Request, token: str) -> Response | None:
    """None for who has it; whoever opens the page with it in the address gets it as a cookie."""
    if request.url.path == "/" and _is_same(request.query_params.get("token", ""), token):
        entry = RedirectResponse("/", status_code=303)
        entry.set_cookie(COOKIE, token, httponly=True, samesite="strict")
        return entry
    kind, _, given = request.headers.get("authorization", "").partition(" ")
    if _is_same(given if kind.lower() == "bearer" else request.cookies.get(COOKIE, ""), token):
        return None
    why = "this server asks for its token: open its page at /?token=…, or send the header Authorization: Bearer …"
    return JSONResponse({"detail": why}, status_code=401, headers={"WWW-Authenticate": "Bearer"})


def _is_same(given: str, token: str) -> bool:
    return secrets.compare_digest(given.encode(), token.encode())


def _is_from_elsewhere(request: Request) -> bool:
    """Whether a browser says so, in either of its ways; programs say nothing."""
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site", "none")
    if site not in ("same-origin", "none"):  # same-site is another port of this machine
        return True
    return origin is not None and not _is_own(origin, request.headers.get("host", ""))


def _is_own(origin: str, host: str) -> bool:
    scheme, _, address = origin.lower().partition("://")
    port = DEFAULT_PORTS.get(scheme)
    return port is not None and address.removesuffix(port) == host.lower().removesuffix(port)
