"""Lance tables kept in any Iceberg REST catalog."""
