import subprocess
import sys

import lakeroot

HEAVY = ["lance", "pyarrow", "pydantic", "pandas", "pyspark", "obstore", "lance_namespace", "numpy"]


def test_every_public_name_exists_and_there_are_few() -> None:
    assert all(getattr(lakeroot, name) is not None for name in lakeroot.__all__)
    assert len(lakeroot.__all__) <= 20


def test_importing_lakeroot_imports_nothing_heavy() -> None:
    code = f"import lakeroot, sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
