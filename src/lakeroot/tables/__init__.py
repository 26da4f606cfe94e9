"""The inside of one Lance table: rows, search, indexes, columns, tags, branches, versions.

Everything here works on a location, whatever catalog it came from. Plain values go in, frozen
records and Arrow data come out, and every failure is an error of `lakeroot.model.errors`.
"""
