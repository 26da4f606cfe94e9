"""Statements over Spark Connect, where Spark knows no catalog of ours: our own jobs run them.

What they mean is what Spark means by them in a classic session. A statement that is not served is
refused with a sentence that says what to use instead.
"""

import re
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

from lakeroot.model.errors import (
    InvalidInputError,
    NamespaceAlreadyExistsError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from lakeroot.spark.catalogs import TableRef, exists, locate, parse_name
from lakeroot.spark.changing import delete_rows
from lakeroot.spark.opening import open_table
from lakeroot.spark.row_changes import ChangeResult
from lakeroot.spark.spark_sql import creating
from lakeroot.spark.spark_sql.answers import Answers
from lakeroot.spark.spark_sql.connect_altering import BEGIN_CHANGE, altered, columns_of, description
from lakeroot.spark.spark_sql.connect_inserts import insert_rows
from lakeroot.spark.spark_sql.connect_queries import mentions_catalog, query
from lakeroot.spark.spark_sql.installing import catalog_in, table_in
from lakeroot.spark.spark_sql.scanning import Statement, settings, split, unquoted
from lakeroot.spark.types import spark_schema
from lakeroot.spark.writing import fill

_NAME = r"(?:`(?:[^`]|``)+`|\w+)"
_NAMED = re.compile(rf"(?P<name>{_NAME}(?:\.{_NAME})*)\s*(?P<rest>.*)", re.DOTALL)
_QUERIES = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE", "EXPLAIN"})
_BEGIN_QUERY = (("SELECT",), ("WITH",), ("FROM",), ("VALUES",), ("TABLE",))
_CLAUSES = ("USING", "TBLPROPERTIES", "OPTIONS", "LOCATION", "COMMENT", "PARTITIONED", "CLUSTERED")
_AFTER_NAME = tuple((word,) for word in ("AS", *_CLAUSES))
_SPACES = ("NAMESPACE", "SCHEMA", "DATABASE")
_SERVED = (
    "Use a classic session, or one of what lakeroot.spark.sql runs over Connect: queries, also"
    " AS OF, CREATE and DROP of tables and namespaces, CREATE TABLE AS SELECT, ALTER and DESCRIBE"
    " TABLE, INSERT, TRUNCATE, MERGE, UPDATE, DELETE, SHOW TABLES and SHOW NAMESPACES"
)


def run(spark: SparkSession, text: str) -> DataFrame:
    """Run a statement that Spark would run itself in a classic session."""
    statement = Statement(text)
    first = statement.tokens[0][1] if statement.tokens else ""
    served = {
        "CREATE": _create,
        "REPLACE": _create,
        "DROP": _drop,
        "INSERT": _insert,
        "TRUNCATE": _truncate,
        "SHOW": _show,
        "ALTER": _alter,
        "DESCRIBE": _describe,
        "DESC": _describe,
    }
    done = served[first](spark, statement) if first in served else None
    if done is not None:
        return done
    if first in _QUERIES | {"", "INSERT"} or not mentions_catalog(spark, text):
        return query(spark, text)
    raise _unserved(" ".join(text.split()[:2]).upper())


def _unserved(what: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        f"{what} is not possible on a Lakeroot catalog in a Spark Connect session",
        "Spark itself cannot be given a catalog there",
        _SERVED,
    )


def summary(spark: SparkSession, done: ChangeResult) -> DataFrame:
    """Say what a statement has changed."""
    return _rows(
        spark,
        [(done.version, done.inserted, done.updated, done.deleted)],
        "version long, inserted long, updated long, deleted long",
    )


def _rows(spark: SparkSession, rows: list[Any], schema: str) -> DataFrame:
    return spark.createDataFrame(rows, schema)


def _nothing(spark: SparkSession) -> DataFrame:
    return spark.range(0).select()


def _is_ours(spark: SparkSession, name: str) -> bool:
    match = _NAMED.match(name)
    return match is not None and catalog_in(spark, parse_name(match["name"])[0]) is not None


def _catalog(spark: SparkSession, name: str) -> tuple[Answers, list[str]] | None:
    """Find the catalog of a name, and what the name says after it."""
    first, *rest = parse_name(name.strip())
    catalog = catalog_in(spark, first)
    return None if catalog is None else (Answers(catalog, 1, "", columnar=False), rest)


# Namespaces, and what is in them


def _namespace(spark: SparkSession, statement: Statement, *, create: bool) -> DataFrame | None:
    lenient = statement.take("IF", "NOT", "EXISTS") if create else statement.take("IF", "EXISTS")
    name = statement.until(("COMMENT",), ("LOCATION",), ("WITH",), ("CASCADE",), ("RESTRICT",))
    found = _catalog(spark, name)
    if found is None:
        return None
    answers, names = found
    cascade = not create and statement.take("CASCADE")
    if not create:
        statement.take("RESTRICT")
    if not statement.finished:
        raise _unserved(f"{'CREATE' if create else 'DROP'} NAMESPACE ... {statement.until()}")
    try:
        if create:
            answers.op_create_namespace({"id": names, "properties": {}})
        else:
            answers.op_drop_namespace({"id": names, "cascade": cascade})
    except (NamespaceAlreadyExistsError, NamespaceNotFoundError):
        if not lenient:
            raise
    return _nothing(spark)


def _show(spark: SparkSession, statement: Statement) -> DataFrame | None:
    statement.expect("SHOW")
    tables = statement.take("TABLES")
    if not tables and not any(statement.take(f"{word}S") for word in _SPACES):
        return None
    if not (statement.take("IN") or statement.take("FROM")):
        return None
    found = _catalog(spark, statement.until(("LIKE",)))
    if found is None:
        return None
    if not statement.finished:
        raise _unserved("SHOW ... LIKE")
    answers, names = found
    if not tables:
        rows = [(".".join([*names, n]),) for n in answers.op_list_namespaces({"id": names})]
        return _rows(spark, rows, "namespace string")
    listed = answers.op_list_tables({"id": names})
    return _rows(
        spark,
        [(".".join(names), name, False) for name in listed],
        "namespace string, tableName string, isTemporary boolean",
    )


# Tables


def _create(spark: SparkSession, statement: Statement) -> DataFrame | None:
    if any(statement.take("CREATE", word) for word in _SPACES):
        return _namespace(spark, statement, create=True)
    replaces = statement.take("CREATE", "OR", "REPLACE", "TEMPORARY", "VIEW")
    replaces = replaces or statement.take("CREATE", "OR", "REPLACE", "TEMP", "VIEW")
    if replaces or any(statement.take("CREATE", word, "VIEW") for word in ("TEMP", "TEMPORARY")):
        return _view(spark, statement, replaces=replaces)
    mode = "create"
    if statement.take("CREATE", "OR", "REPLACE", "TABLE"):
        mode = "overwrite"
    elif statement.take("REPLACE", "TABLE"):
        mode = "replace"
    elif not statement.take("CREATE", "TABLE"):
        return None
    lenient = statement.take("IF", "NOT", "EXISTS")
    named = _NAMED.match(statement.until(("LIKE",), *_AFTER_NAME, *_BEGIN_QUERY))
    if named is None or not _is_ours(spark, named["name"]):
        return None
    ref = table_in(spark, named["name"])
    if mode == "create" and exists(ref) is not None:
        if lenient:
            return _nothing(spark)
        raise TableAlreadyExistsError(f"Table {ref} already exists")
    if mode == "create" and not named["rest"] and statement.take("LIKE"):
        return _create_like(spark, ref, statement)
    return _made(spark, ref, statement, named["rest"], mode)


def _made(
    spark: SparkSession, ref: TableRef, statement: Statement, columns: str, mode: str
) -> DataFrame:
    """Make a table of columns or of a query, whichever the rest of the statement says."""
    properties = _properties(statement)
    statement.take("AS")
    frame = None if statement.finished else query(spark, statement.until())
    if frame is None:
        schema = columns_of(_inside(columns), f"The columns of the new table {ref}")
    elif columns:
        raise _unserved("CREATE TABLE with columns and a query")
    else:
        schema = _nullable(frame.schema)
    request = {"mode": mode, "schema": schema.json(), "properties": properties, "partitions": ()}
    creating.check(ref, request)
    done = creating.done_before(ref, {}, properties)
    if frame is None:
        if done is None:
            creating.empty(ref, request)
        return _nothing(spark)
    done = done or fill(frame, creating.planned(ref, request))
    return summary(spark, ChangeResult(done.version, inserted=done.rows))


def _view(spark: SparkSession, statement: Statement, *, replaces: bool) -> DataFrame | None:
    """Make a temporary view that reads tables of ours, of the versions that they have now."""
    name = statement.until(("AS",))
    if not mentions_catalog(spark, statement.text) or not re.fullmatch(_NAME, name):
        return None
    statement.expect("AS")
    frame = query(spark, statement.until())
    make = frame.createOrReplaceTempView if replaces else frame.createTempView
    make(unquoted(name))
    return _nothing(spark)


def _create_like(spark: SparkSession, ref: TableRef, statement: Statement) -> DataFrame:
    name = statement.until(*_AFTER_NAME)
    columns = None
    if _is_ours(spark, name):
        columns = open_table(locate(table_in(spark, name))).schema
        schema = spark_schema(columns, truncate_nanos=True)
    else:
        schema = spark.table(name).schema
    properties = _properties(statement)
    if not statement.finished:
        raise _unserved(f"CREATE TABLE ... LIKE ... {statement.until()}")
    request = {"schema": schema.json(), "properties": properties, "partitions": ()}
    creating.check(ref, request)
    creating.empty(ref, request, columns)
    return _nothing(spark)


def _nullable(schema: st.StructType) -> st.StructType:
    """Take back that a column has no nulls: what is so of a query is no promise for ever."""
    return st.StructType(
        [
            st.StructField(field.name, field.dataType, nullable=True, metadata=field.metadata)
            for field in schema.fields
        ]
    )


def _properties(statement: Statement) -> dict[str, str]:
    """Read the clauses between the name of a table and its query; what is unknown is refused."""
    found: dict[str, str] = {}
    while not statement.finished and not any(statement.peek(*w) for w in (("AS",), *_BEGIN_QUERY)):
        clause = next((word for word in _CLAUSES if statement.take(word)), None)
        if clause is None:
            raise _unserved(f"CREATE TABLE with {statement.until()!r}")
        value = statement.until(*_AFTER_NAME, *_BEGIN_QUERY)
        if clause == "USING":
            found["provider"] = value
        elif clause in ("LOCATION", "COMMENT"):
            found[clause.lower()] = value.strip("'\"")
        elif clause in ("TBLPROPERTIES", "OPTIONS"):
            found |= settings(_inside(value))
        else:
            raise _unserved(f"CREATE TABLE ... {clause}")
    return found


def _inside(text: str) -> str:
    if not (text.startswith("(") and text.endswith(")")):
        raise InvalidInputError(f"{text!r} should be in parentheses")
    return text[1:-1]


def _drop(spark: SparkSession, statement: Statement) -> DataFrame | None:
    if any(statement.take("DROP", word) for word in _SPACES):
        return _namespace(spark, statement, create=False)
    if not statement.take("DROP", "TABLE"):
        return None
    lenient = statement.take("IF", "EXISTS")
    name = statement.until(("PURGE",))
    if not _is_ours(spark, name):
        return None
    if not statement.finished:
        raise _unserved("DROP TABLE ... PURGE")
    ref = table_in(spark, name)
    found = _catalog(spark, name)
    if not (found and found[0].op_drop_table({"id": found[1]})) and not lenient:
        raise TableNotFoundError(f"There is no table {ref}")
    return _nothing(spark)


def _alter(spark: SparkSession, statement: Statement) -> DataFrame | None:
    if not statement.take("ALTER", "TABLE"):
        return None
    name = statement.until(*BEGIN_CHANGE)
    found = _catalog(spark, name) if _is_ours(spark, name) else None
    if found is None:
        return None
    if not altered(spark, found[0], table_in(spark, name), found[1], statement):
        raise _unserved(f"ALTER TABLE ... {' '.join(statement.until().split()[:2])}")
    return _nothing(spark)


def _describe(spark: SparkSession, statement: Statement) -> DataFrame | None:
    if not statement.take("DESCRIBE"):
        statement.expect("DESC")
    statement.take("TABLE")
    named = _NAMED.match(statement.until())
    found = _catalog(spark, named["name"]) if named and _is_ours(spark, named["name"]) else None
    if named is None or found is None:
        return None
    if named["rest"]:
        raise _unserved(f"DESCRIBE TABLE ... {named['rest']}")
    rows = description(*found)
    return _rows(spark, rows, "col_name string, data_type string, comment string")


def _truncate(spark: SparkSession, statement: Statement) -> DataFrame | None:
    statement.expect("TRUNCATE", "TABLE")
    name = statement.until()
    if not _is_ours(spark, name):
        return None
    return summary(spark, delete_rows(spark, table_in(spark, name), "true"))


def _insert(spark: SparkSession, statement: Statement) -> DataFrame | None:
    overwrite = statement.take("INSERT", "OVERWRITE")
    if not overwrite:
        statement.expect("INSERT", "INTO")
    statement.take("TABLE")
    named = _NAMED.match(statement.until(("BY", "NAME"), *_BEGIN_QUERY))
    if named is None or not _is_ours(spark, named["name"]):
        return None
    ref = table_in(spark, named["name"])
    rest, options = named["rest"], statement.take_options()
    if options is not None:
        if rest:
            raise _unserved(f"INSERT ... {rest} WITH ({options})")
        rest = statement.until(("BY", "NAME"), *_BEGIN_QUERY)
    by_name = statement.take("BY", "NAME")
    text = statement.until()
    if not text:
        rest, text = "", rest  # A query in parentheses.
    if rest and not rest.startswith("("):
        raise _unserved(f"INSERT ... {rest}")
    names = [unquoted(name) for name in split(_inside(rest))] if rest else None
    given = settings(options or "")
    done = creating.done_before(ref, given) or insert_rows(
        query(spark, text), ref, given, names=names, by_name=by_name, overwrite=overwrite
    )
    return summary(spark, ChangeResult(done.version, inserted=done.rows))
