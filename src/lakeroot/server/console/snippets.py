"""A few lines that open a table, in the languages people come with."""

from lakeroot.model.identifiers import Identifier, show


def snippets(origin: str, identifier: Identifier) -> list[dict[str, str]]:
    """Write the lines for one table behind one address."""
    names, dotted = list(identifier), show(identifier)
    *parent, table = names
    quoted = ".".join("`" + name.replace("`", "``") + "`" for name in names)
    python = f"""import lakeroot

lake = lakeroot.open({origin!r})
table = lake[{dotted!r}]
print(table.schema)
print(table.to_pandas(limit=10))"""
    pyspark = f"""import lakeroot.spark as lake

spark = lake.session()
reader = spark.read.format("lakeroot").option("impl", "rest").option("property.uri", {origin!r})
reader.load({dotted!r}).show()"""
    lancedb = f"""import lancedb

db = lancedb.connect_namespace("rest", {{"uri": {origin!r}}})
table = db.open_table({table!r}, namespace_path={parent!r})
print(table.head(10))"""
    pyiceberg = f"""from pyiceberg.catalog import load_catalog

catalog = load_catalog("lakeroot", type="rest", uri={origin + "/iceberg"!r})
print(catalog.load_table({tuple(names)!r}).schema())"""
    statement = f"SELECT * FROM lake.{quoted} LIMIT 10"  # noqa: S608  a text for people to copy
    sql = f"""import lakeroot.spark as lake

spark = lake.session()
lake.use_catalog(spark, "lake", impl="rest", properties={{"uri": {origin!r}}})
spark.sql({statement!r}).show()"""
    return [
        {"name": "Python", "code": python},
        {"name": "PySpark", "code": pyspark},
        {"name": "LanceDB", "code": lancedb},
        {"name": "pyiceberg", "code": pyiceberg},
        {"name": "SQL", "code": sql},
    ]
