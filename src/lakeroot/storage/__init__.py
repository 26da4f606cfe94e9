"""Where catalogs are kept: one room per format, behind one small contract."""
