"""Do the tests notice when the code is wrong: one small mistake at a time, in the core modules."""
