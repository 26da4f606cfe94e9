"""The words of Lakeroot: identifiers, records, changes, errors. Plain values, no I/O."""
