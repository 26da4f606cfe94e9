"""Full text queries: from the JSON shape of the specification to pylance's query objects.

{"match": {"terms": "red fox", "column": "body", "operator": "And"}}
{"phrase": {"terms": "red fox", "column": "body", "slop": 1}}
{"boost": {"positive": Q, "negative": Q, "negative_boost": 0.3}}
{"multi_match": {"match_queries": [{"terms": "fox", "column": "title"}, ...]}}
{"boolean": {"must": [Q], "should": [Q], "must_not": [Q]}}
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from lance.query import (
    BooleanQuery,
    BoostQuery,
    FullTextOperator,
    FullTextQuery,
    MatchQuery,
    MultiMatchQuery,
    Occur,
    PhraseQuery,
)

from lakeroot.model.errors import InvalidInputError

DEEPEST: Final = 32
"""Queries nest; a request deeper than this is a mistake or an attack."""


def structured(query: Mapping[str, Any], indexed_columns: Sequence[str]) -> FullTextQuery:
    """Build a structured query; where it names no column, it searches all the indexed ones."""
    return _Builder(tuple(indexed_columns)).build(query, DEEPEST)


class _Builder:
    def __init__(self, indexed_columns: tuple[str, ...]) -> None:
        self._indexed_columns = indexed_columns
        self._kinds: dict[str, Callable[[Mapping[str, Any], int], FullTextQuery]] = {
            "match": self._match,
            "phrase": self._phrase,
            "boost": self._boost,
            "multi_match": self._multi_match,
            "boolean": self._boolean,
        }

    def build(self, query: Any, depth: int) -> FullTextQuery:
        given = _given(query, "A full text query")
        if len(given) != 1 or not given.keys() <= self._kinds.keys():
            raise InvalidInputError(
                f"A full text query has one kind, not {sorted(given)}",
                fix=f"Use one of: {', '.join(self._kinds)}",
            )
        if depth == 0:
            raise InvalidInputError(f"A full text query nests at most {DEEPEST} levels")
        [(kind, body)] = given.items()
        return self._kinds[kind](_given(body, f"The query {kind!r}"), depth - 1)

    def _match(self, body: Mapping[str, Any], _depth: int) -> FullTextQuery:
        options = {
            "boost": float(body.get("boost", 1.0)),
            "fuzziness": body.get("fuzziness", 0),
            "max_expansions": body.get("max_expansions", 50),
            "operator": _operator(body.get("operator")),
            "prefix_length": body.get("prefix_length", 0),
        }
        return self._anywhere(body, lambda column: MatchQuery(_terms(body), column, **options))

    def _phrase(self, body: Mapping[str, Any], _depth: int) -> FullTextQuery:
        slop = body.get("slop", 0)
        return self._anywhere(body, lambda column: PhraseQuery(_terms(body), column, slop=slop))

    def _boost(self, body: Mapping[str, Any], depth: int) -> FullTextQuery:
        return BoostQuery(
            self.build(body.get("positive"), depth),
            self.build(body.get("negative"), depth),
            negative_boost=float(body.get("negative_boost", 0.5)),
        )

    def _multi_match(self, body: Mapping[str, Any], depth: int) -> FullTextQuery:
        queries = [_given(one, "A match query") for one in _list(body, "match_queries")]
        if not queries:
            raise InvalidInputError("A multi_match query needs at least one match query")
        alike = {(_terms(one), _operator(one.get("operator"))) for one in queries}
        if len(alike) == 1 and all(_is_plain(one) for one in queries):
            return MultiMatchQuery(
                _terms(queries[0]),
                [one["column"] for one in queries],
                boosts=[float(one.get("boost", 1.0)) for one in queries],
                operator=_operator(queries[0].get("operator")),
            )
        # Lance has one text and operator for all columns; different ones are a choice of matches.
        return BooleanQuery([(Occur.SHOULD, self._match(one, depth)) for one in queries])

    def _boolean(self, body: Mapping[str, Any], depth: int) -> FullTextQuery:
        clauses = [
            (occur, self.build(one, depth))
            for occur in (Occur.MUST, Occur.SHOULD, Occur.MUST_NOT)
            for one in _list(body, occur.value.lower())
        ]
        if all(occur is Occur.MUST_NOT for occur, _ in clauses):
            raise InvalidInputError(
                "A boolean query needs at least one clause under must or should"
            )
        return BooleanQuery(clauses)

    def _anywhere(
        self, body: Mapping[str, Any], on: Callable[[str], FullTextQuery]
    ) -> FullTextQuery:
        """Search the column a query names or, if it names none, all the indexed ones."""
        column = body.get("column")
        if column is not None:
            return on(str(column))
        if not self._indexed_columns:
            raise InvalidInputError(
                "The table has no full text index",
                "the query names no column to search",
                "Create an index of type FTS, or name a column",
            )
        queries = [on(name) for name in self._indexed_columns]
        if len(queries) == 1:
            return queries[0]
        return BooleanQuery([(Occur.SHOULD, query) for query in queries])


def _given(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"{what} is an object, not {value!r}")
    return {str(key): item for key, item in value.items() if item is not None}


def _list(body: Mapping[str, Any], key: str) -> list[Any]:
    found = body.get(key, [])
    if not isinstance(found, Sequence) or isinstance(found, str):
        raise InvalidInputError(f"{key!r} of a full text query is a list, not {found!r}")
    return list(found)


def _terms(body: Mapping[str, Any]) -> str:
    terms = body.get("terms")
    if not isinstance(terms, str):
        raise InvalidInputError(
            "A full text query needs terms", fix='Give the text to search as "terms"'
        )
    return terms


def _operator(text: str | None) -> FullTextOperator:
    try:
        return FullTextOperator[(text or "or").upper()]
    except KeyError:
        raise InvalidInputError(
            f"There is no full text operator {text!r}", fix="Use And or Or"
        ) from None


def _is_plain(query: Mapping[str, Any]) -> bool:
    return "column" in query and query.keys() <= {"terms", "column", "boost", "operator"}
