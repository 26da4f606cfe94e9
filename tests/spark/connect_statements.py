"""Statements over Spark Connect: what our own jobs run, and a clear answer to the rest."""

from typing import Any

from pyspark.sql import SparkSession

import lakeroot
import lakeroot.spark
from lakeroot.model.errors import LakerootError
from tests.spark.conftest import put
from tests.spark.test_exact_conditions import moments

# Each statement with the rows that it gives, or with words of the error that it raises.
STATEMENTS: list[tuple[str, Any]] = [
    ("CREATE NAMESPACE lake.shop", []),
    ("CREATE NAMESPACE IF NOT EXISTS lake.shop", []),
    ("CREATE SCHEMA lake.shop", "NamespaceAlreadyExistsError"),
    ("CREATE TABLE lake.shop.t (id BIGINT NOT NULL, n STRING COMMENT 'a (name)') USING lance", []),
    ("CREATE TABLE IF NOT EXISTS lake.shop.t (id INT)", []),
    ("CREATE TABLE lake.shop.t (id INT)", "TableAlreadyExistsError"),
    ("CREATE TABLE lake.shop.p (id NUMERAL)", "InvalidInputError: The columns of the new table"),
    ("CREATE TABLE lake.shop.p (id INT) USING parquet", "UnsupportedOperationError"),
    ("CREATE TABLE lake.shop.p (id INT) PARTITIONED BY (id)", "Connect session"),
    ("INSERT INTO lake.shop.t VALUES (1, 'lake.shop.t'), (2, 'b; -- c')", [[2, 2, 0, 0]]),
    ("INSERT INTO TABLE lake.shop.t (n, id) SELECT 'c', 3", [[3, 1, 0, 0]]),
    ("INSERT INTO lake.shop.t WITH (jobId = 'j') BY NAME SELECT 4 AS id", [[4, 1, 0, 0]]),
    ("INSERT INTO lake.shop.t WITH (jobId = 'j') (id) SELECT 4", [[4, 0, 0, 0]]),
    ("INSERT INTO lake.shop.t WITH (mode = 'create') SELECT 4, 'd'", "'mode' is not for tables"),
    ("INSERT INTO lake.shop.t WITH (jbId = 'j') SELECT 4, 'd'", "Did you mean 'jobId'?"),
    ("INSERT INTO lake.shop.t (id) WITH (jobId = 'k') SELECT 4", "INSERT ... (id) WITH"),
    ("INSERT INTO lake.shop.t VALUES (NULL, 'x')", "takes no nulls"),
    ("INSERT INTO lake.shop.t VALUES (1)", "2 columns and gives 1"),
    ("INSERT INTO lake.shop.t VALUES ('x', 'y')", "Cast it first"),
    ("INSERT INTO lake.shop.t (id, nn) VALUES (1, 'y')", "no column 'nn'"),
    ("SELECT count(*), max(n) FROM lake.shop.t WHERE n <> 'lake.none'", [[3, "lake.shop.t"]]),
    ("select count(*) from lake.shop.t version as of 2", [[2]]),
    ("SELECT count(*) FROM lake.shop.t FOR VERSION AS OF 1 AS old WHERE old.id > 0", [[0]]),
    ("SELECT count(*) FROM lake.shop.t TIMESTAMP AS OF current_timestamp()", [[4]]),
    ("SELECT count(*) FROM lake.shop.t TIMESTAMP AS OF '1999-01-01'", "1999"),
    ("SELECT count(*) FROM lake.shop.t VERSION AS OF 'none'", "no tag 'none'"),
    ("CREATE TABLE lake.shop.u AS SELECT id * 2 AS id FROM lake.shop.t", [[1, 4, 0, 0]]),
    ("CREATE OR REPLACE TABLE lake.shop.u AS SELECT id + 1 AS id FROM lake.shop.u", [[2, 4, 0, 0]]),
    ("CREATE OR REPLACE TABLE lake.shop.u AS SELECT raise_error('bad row') AS id", "bad row"),
    ("WITH q AS (SELECT * FROM lake.shop.u) SELECT sum(id) FROM q", [[24]]),
    ("INSERT OVERWRITE lake.shop.t SELECT id, 'x' FROM lake.shop.t WHERE id < 3", [[5, 2, 0, 0]]),
    ("SELECT id, n FROM lake.shop.t ORDER BY id", [[1, "x"], [2, "x"]]),
    ("SELECT t.id, lake.shop.t.n FROM lake.shop.t WHERE lake.shop.t.id = 2", [[2, "x"]]),
    ("SELECT u.id FROM lake.shop.t JOIN lake . shop . u ON u.id = t.id + 1", [[3]]),
    ("SELECT count(*) FROM lake.shop.t JOIN lake.shop.t b USING (id), lake.shop.u", [[8]]),
    ("SELECT count(*) FROM lake.shop.t JOIN lake.shop.t b ON b.id = t.id, lake.shop.u", [[8]]),
    ("SELECT b.id FROM lake.shop.t, lake.shop.u b WHERE t.id = b.id - 1", [[3]]),
    (
        "WITH q AS (SELECT * FROM lake.shop.u WHERE EXISTS (SELECT 1 FROM lake.shop.t"
        " WHERE t.id = u.id - 1)), r (most) AS (SELECT max(u.id) FROM (lake.shop.u))"
        " SELECT q.id, (SELECT most FROM r), extract(YEAR FROM lake.day), lake.day IS DISTINCT FROM"
        " lake.day, '{lake.shop.t}' FROM q, (SELECT struct(DATE '2026-01-31' AS day) AS lake)",
        [[3, 9, 2026, False, "{lake.shop.t}"]],
    ),
    ("TABLE lake.shop.t ORDER BY id", [[1, "x"], [2, "x"]]),
    ("CREATE OR REPLACE TEMP VIEW seen AS SELECT id FROM lake.shop.t", []),
    ("CREATE VIEW kept AS SELECT id FROM lake.shop.t", "Connect session"),
    ("CREATE TABLE lake.shop.w AS SELECT id, id AS n, 'a' AS s FROM range(10)", [[1, 10, 0, 0]]),
    ("DELETE FROM lake.shop.w WHERE id IN (SELECT id FROM lake.shop.t)", [[2, 0, 0, 2]]),
    (
        "DELETE FROM lake.shop.w x WHERE EXISTS (SELECT 1 FROM seen WHERE x.id = seen.id + 2)",
        [[3, 0, 0, 2]],
    ),
    ("DELETE FROM lake.shop.w WHERE w.id = (SELECT max(w.id) FROM lake.shop.w)", [[4, 0, 0, 1]]),
    (
        "DELETE FROM lake.shop.w WHERE lake.shop.w.id NOT IN"
        " (SELECT id FROM lake.shop.w VERSION AS OF 1 WHERE id < 8)",
        [[5, 0, 0, 1]],
    ),
    (
        "UPDATE lake.shop.w SET n = (SELECT max(id) FROM lake.shop.u), lake.shop.w.s = 'b'"
        " WHERE id > (SELECT avg(u.id) FROM lake.shop.u)",
        [[6, 0, 1, 0]],
    ),
    (
        "UPDATE lake.shop.w SET n = (SELECT max(u.id) * 10 FROM lake.shop.u WHERE u.id = w.id - 1)"
        " WHERE id = 6 OR id IN (SELECT id + 3 FROM lake.shop.t)",
        [[7, 0, 2, 0]],
    ),
    (
        "SELECT * FROM lake.shop.w ORDER BY id",
        [[0, 0, "a"], [5, None, "a"], [6, 50, "a"], [7, 9, "b"]],
    ),
    (
        "MERGE INTO lake.shop.w USING lake.shop.u"
        " ON w.id = u.id AND u.id IN (SELECT id FROM lake.shop.u WHERE id > 2)"
        " WHEN MATCHED AND w.id = (SELECT max(id) FROM lake.shop.t) THEN DELETE"
        " WHEN MATCHED AND EXISTS (SELECT 1 FROM lake.shop.u x WHERE x.id = w.id)"
        " THEN UPDATE SET n = (SELECT sum(id) FROM lake.shop.t)"
        " WHEN NOT MATCHED AND u.id NOT IN (SELECT id FROM lake.shop.t)"
        " THEN INSERT (id, n) VALUES (u.id, (SELECT min(id) FROM lake.shop.t))"
        " WHEN NOT MATCHED BY SOURCE AND w.id IN (SELECT 0 FROM lake.shop.t) THEN DELETE",
        [[8, 2, 2, 1]],
    ),
    (
        "MERGE INTO lake.shop.w t USING (SELECT lake.shop.t.id FROM lake.shop.t) s"
        " ON t.id = s.id + 4 WHEN MATCHED THEN DELETE",
        [[9, 0, 0, 2]],
    ),
    ("SELECT * FROM lake.shop.w ORDER BY id", [[3, 1, None], [7, 3, "b"], [9, 1, None]]),
    ("DELETE FROM lake.shop.w WHERE id IN (SELECT id FROM lake.shop.none)", "TableNotFoundError"),
    ("DELETE FROM lake.shop.w WHERE id IN (SELECT none FROM lake.shop.t)", "`none` cannot be"),
    ("DROP TABLE lake.shop.w", []),
    ("SHOW TABLES", [["", "seen", True]]),
    ("SHOW TABLES IN lake.shop", [["shop", "t", False], ["shop", "u", False]]),
    ("SHOW NAMESPACES IN lake", [["shop"]]),
    ("ALTER TABLE lake.shop.t ADD COLUMN z INT", []),
    ("ALTER TABLE lake.shop.t ADD COLUMNS (`a b` STRING COMMENT 'x, y', s STRUCT<k: INT>)", []),
    ("ALTER TABLE lake.shop.t ADD COLUMN Z INT", "already has a column 'z'"),
    ("ALTER TABLE lake.shop.t ADD COLUMN y INT NOT NULL", "Leave NOT NULL out"),
    ("ALTER TABLE lake.shop.t ADD COLUMN y INT AFTER id", "Leave FIRST and AFTER out"),
    ("ALTER TABLE lake.shop.t RENAME COLUMN Z TO zz", []),
    ("ALTER TABLE lake.shop.t RENAME COLUMN zz TO N", "already has a column 'n'"),
    ("ALTER TABLE lake.shop.t RENAME COLUMN nope TO N", "no column 'nope'"),
    ("ALTER TABLE lake.shop.t ALTER COLUMN id DROP NOT NULL", []),
    ("ALTER TABLE lake.shop.t ALTER COLUMN id SET NOT NULL", "cannot become NOT NULL"),
    ("ALTER TABLE lake.shop.t ALTER COLUMN id TYPE STRING", "UpdateColumnType"),
    ("ALTER TABLE lake.shop.t DROP COLUMNS (zz, nope)", "no column 'nope'"),
    ("ALTER TABLE lake.shop.t DROP COLUMNS IF EXISTS (zz, nope)", []),
    ("ALTER TABLE lake.shop.t ALTER COLUMN id DROP NOT NULL, n DROP NOT NULL", "several columns"),
    ("ALTER TABLE lake.shop.t RENAME COLUMN s.k TO s.j", "'s.j' is not the new name"),
    ("ALTER TABLE lake.shop.t RENAME COLUMN n TO m m", "'m m' is not the new name"),
    ("ALTER TABLE lake.shop.t ADD COLUMN y NUMERAL", "InvalidInputError: The type of the new"),
    ("ALTER TABLE lake.shop.t ADD COLUMN y", "InvalidInputError: The type of the new"),
    ("ALTER TABLE lake.shop.t SET TBLPROPERTIES ('a' = 'b')", "SetProperty"),
    ("ALTER TABLE lake.shop.t REPLACE COLUMNS (a INT)", "CREATE OR REPLACE TABLE"),
    ("ALTER TABLE lake.shop.t RECOVER PARTITIONS", "Connect session"),
    (
        "DESCRIBE TABLE lake.shop.t",
        [
            ["id", "bigint", None],
            ["n", "string", "a (name)"],
            ["a b", "string", "x, y"],
            ["s", "struct<k:int>", None],
        ],
    ),
    ("DESC lake.shop.none", "TableNotFoundError"),
    ("DESCRIBE TABLE EXTENDED lake.shop.t", "Connect session"),
    ("ALTER TABLE lake.shop.t RENAME TO lake.shop.r", []),
    ("ALTER TABLE lake.shop.t RENAME TO shop.r", "TableNotFoundError"),
    ("ALTER TABLE lake.shop.r RENAME TO shop.t", []),
    ("CREATE TABLE lake.shop.change (type INT NOT NULL, to INT)", []),
    ("ALTER TABLE lake.shop.change RENAME TO lake.shop.set", []),
    ("ALTER TABLE lake.shop.set RENAME TO shop.add", []),
    ("ALTER TABLE lake.shop.add ADD COLUMN m MAP<STRING, ARRAY<INT>> COMMENT 'a, <b'", []),
    ("ALTER TABLE lake.shop.add ADD COLUMN after STRUCT<first: INT, after: MAP<INT, INT>>", []),
    ("ALTER TABLE lake.shop.add ADD COLUMNS (first STRING, last DECIMAL(5, 2))", []),
    ("ALTER TABLE lake.shop.add ADD COLUMN y ARRAY<INT> FIRST COMMENT 'b'", "Leave FIRST and"),
    ("ALTER TABLE lake.shop.add ALTER COLUMN type DROP NOT NULL", []),
    ("ALTER TABLE lake.shop.add ALTER COLUMN first TYPE INT", "UpdateColumnType"),
    ("ALTER TABLE lake.shop.add RENAME COLUMN to TO comment", []),
    ("ALTER TABLE lake.shop.add ALTER COLUMN comment DROP NOT NULL", []),
    (
        "DESCRIBE TABLE lake.shop.add",
        [
            ["type", "int", None],
            ["comment", "int", None],
            ["m", "map<string,array<int>>", "a, <b"],
            ["after", "struct<first:int,after:map<int,int>>", None],
            ["first", "string", None],
            ["last", "decimal(5,2)", None],
        ],
    ),
    ("INSERT INTO lake.shop.add (type) VALUES (NULL)", [[8, 1, 0, 0]]),
    ("DROP TABLE lake.shop.add", []),
    ("CREATE NAMESPACE set.column", []),
    ("CREATE TABLE set.column.1add (set INT, type INT)", []),
    ("ALTER TABLE set.column.1add ADD COLUMN add INT", []),
    ("ALTER TABLE `set`.`column`.`1add` RENAME COLUMN `set` TO `drop`", []),
    ("ALTER TABLE set . column . 1add ALTER COLUMN drop DROP NOT NULL", []),
    ("ALTER TABLE set.column.1add RENAME TO set.column.`add ``column`", []),
    ("ALTER TABLE set.column.`add ``column` DROP COLUMN type", []),
    ("INSERT INTO set.column.`add ``column` VALUES (1, 2)", [[6, 1, 0, 0]]),
    ("UPDATE set.column.`add ``column` SET add = 3", [[7, 0, 1, 0]]),
    ("SELECT drop, add FROM `set`.column.`add ``column`", [[1, 3]]),
    ("DROP TABLE set.column.`add ``column`", []),
    ("DROP NAMESPACE set.column", []),
    ("CREATE TABLE lake.shop.v LIKE lake.shop.t", []),
    ("CREATE TABLE lake.shop.v LIKE lake.shop.t", "TableAlreadyExistsError"),
    ("CREATE TABLE lake.shop.w LIKE lake.shop.none", "TableNotFoundError"),
    ("SELECT count(*), count(s) FROM lake.shop.v", [[0, 0]]),
    ("DROP TABLE lake.shop.v", []),
    ("TRUNCATE TABLE lake.shop.u", [[3, 0, 0, 4]]),
    ("DROP TABLE lake.shop.u", []),
    ("DROP TABLE lake.shop.u", "TableNotFoundError"),
    ("DROP TABLE IF EXISTS lake.shop.u", []),
    ("DROP NAMESPACE lake.shop", "NamespaceNotEmptyError"),
    ("DROP NAMESPACE lake.shop CASCADE", []),
    ("SHOW NAMESPACES IN lake", []),
    ("SELECT 1 AS one", [[1]]),
    (
        "MERGE INTO nanos.t USING (SELECT id FROM range(9)) s ON t.id = s.id"
        " WHEN MATCHED AND t.ns IS NULL THEN UPDATE SET x = 5"
        " WHEN MATCHED AND t.inside.n IS NOT NULL AND t.id < 2 THEN DELETE",
        [[2, 0, 1, 2]],
    ),
    (
        "SELECT id, x FROM nanos.t WITH (truncateNanos = true) ORDER BY id",
        [[2, 0], [3, 5], [4, 0]],
    ),
]


def answered(spark: SparkSession, root: str) -> list[Any]:
    """Run the statements one after the other; return what each has said."""
    lakeroot.spark.use_catalog(spark, "lake", root=root)
    # A name that begins with a keyword is one all the same.
    lakeroot.spark.use_catalog(spark, "set", root=root)
    put(lakeroot.DirectoryNamespace(root=f"{root}-nanos"), "t", moments())
    lakeroot.spark.use_catalog(spark, "nanos", root=f"{root}-nanos")
    said: list[Any] = []
    for text, _ in STATEMENTS:
        try:
            said.append([list(row) for row in lakeroot.spark.sql(spark, text).collect()])
        except LakerootError as error:
            said.append(f"{type(error).__name__}: {error}")
        except Exception as error:  # the test shows what it was
            said.append(f"not ours, {type(error).__name__}: {error}")
    return said


def check(said: list[Any]) -> None:
    """Hold what the statements have said against what they should."""
    for (text, expected), found in zip(STATEMENTS, said, strict=True):
        if isinstance(expected, str):
            assert expected in found, text
            assert not found.startswith("not ours"), text
            assert len(found) < 500, text
        else:
            assert found == expected, text
