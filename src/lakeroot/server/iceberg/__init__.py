"""Iceberg REST: the same tables for every Iceberg client, under `/iceberg`."""
