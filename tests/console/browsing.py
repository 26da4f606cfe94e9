"""A browser without a window: keeps cookies, follows redirects, sends forms."""

from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

from tests.server.http import Answer, Client

VOID = {"meta", "link", "input", "img", "br", "path", "rect", "circle", "line"}


class Browser:
    def __init__(self, url: str) -> None:
        self.client = Client(url)
        self.cookies: dict[str, str] = {}

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self.client.__exit__()

    def get(self, path: str, **headers: str) -> Answer:
        return self._kept(self.client.get(path, headers=self._headers(headers)))

    def page(self, path: str) -> "Document":
        found = self.get(path)
        assert found.status == 200, (path, found.status, found.body[:600])
        return Document(found.body.decode())

    def send(self, path: str, fields: Mapping[str, object], **headers: str) -> Answer:
        kind = {"content-type": "application/x-www-form-urlencoded"}
        body = urlencode({name: str(value) for name, value in fields.items()}).encode()
        return self._kept(self.client.post(path, body, headers=self._headers({**kind, **headers})))

    def csrf(self, path: str) -> str:
        return self.page(path).values["csrf"]

    def _headers(self, more: dict[str, str]) -> dict[str, str]:
        cookie = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        found = {name.replace("_", "-"): value for name, value in more.items()}
        return {**({"cookie": cookie} if cookie else {}), **found}

    def _kept(self, answer: Answer) -> Answer:
        given = answer.headers.get("set-cookie")
        if given:
            name, _, value = given.partition(";")[0].partition("=")
            self.cookies[name] = value
        return answer


class Document(HTMLParser):
    """What a browser would make of a page; refuses tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.source = text
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.values: dict[str, str] = {}
        self._open: list[str] = []
        self.feed(text)
        assert not self._open, f"never closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append((tag, given))
        if tag == "input" and "name" in given:
            self.values.setdefault(given["name"], given.get("value", ""))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open, f"</{tag}> closes nothing"
            assert self._open.pop() == tag, f"</{tag}> closes another tag"

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append(" ".join(data.split()))

    @property
    def text(self) -> str:
        return " ".join(self.texts)

    def all(self, tag: str, **wanted: Any) -> list[dict[str, str]]:
        return [a for t, a in self.tags if t == tag and wanted.items() <= a.items()]
