"""Lance REST: the operations of a Lance namespace over HTTP, as one table of routes."""
