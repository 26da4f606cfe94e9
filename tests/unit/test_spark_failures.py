"""A failure of Spark is told in a line that a person can act on."""

from lakeroot.model.errors import InternalError, InvalidInputError
from lakeroot.spark.failures import explained

_JAVA = """An error occurred while calling o329.run.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 8 failed 1 times
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:4560)
"""
_PYTHON = """An error occurred while calling o329.run.
: org.apache.spark.SparkException: Job aborted due to stage failure
Traceback (most recent call last):
  File "x.py", line 1, in task
lakeroot.model.errors.InvalidInputError: The column x is not there
"""


def test_a_failure_in_java_says_what_went_wrong_and_not_which_call() -> None:
    error = explained("Table t cannot be changed", RuntimeError(_JAVA))

    assert isinstance(error, InternalError)
    assert "Job aborted due to stage failure: Task 8 failed 1 times" in str(error)
    assert "o329" not in str(error)
    assert "DAGScheduler" not in str(error)


def test_an_error_of_ours_in_a_task_is_the_same_error_in_the_driver() -> None:
    error = explained("Table t cannot be changed", RuntimeError(_PYTHON))

    assert isinstance(error, InvalidInputError)
    assert "The column x is not there" in str(error)
