// What a task fails with, as an error that Spark hands to the driver as it is.
// Spark wraps any exception that has no condition of its own into one with the traces of the task,
// of the scheduler and of the call. One with a condition comes through, and PySpark shows its
// message only. The original stays its cause, for the logs. Compiled with the readers.
package lakeroot.spark;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.QueryContext;
import org.apache.spark.SparkException;
import org.apache.spark.SparkRuntimeException;
import org.apache.spark.api.python.PythonException;
import org.apache.spark.unsafe.Platform;

public class TaskFailure {
  private static final String OURS = "lakeroot.model.errors.";
  private static final String DEAD = "Python worker exited unexpectedly";

  // Everything else passes: what ends a task on purpose, what a stage is repeated for, and what
  // has a condition or a trace of the user's own Python. It never returns.
  public static RuntimeException of(Throwable error, String action, String what) {
    String said = null;
    if (error instanceof PythonException) {
      said = ours((String) ((PythonException) error).getMessageParameters().get("traceback"));
    } else if (error instanceof SparkException
        && error.getMessage() != null
        && error.getMessage().startsWith(DEAD)) {
      said =
          "InternalError: "
              + what
              + ". a Python worker was killed, ran out of memory, or crashed in a library";
    }
    Platform.throwException(said == null ? error : (Throwable) failed(action, said, error));
    return null;
  }

  // The last lines of a Python traceback, if they are an error of Lakeroot.
  private static String ours(String traceback) {
    if (traceback == null) return null;
    int at = ("\n" + traceback).lastIndexOf("\n" + OURS);
    if (at < 0) return null;
    String last = traceback.substring(at + OURS.length()).trim();
    return last.contains("\nTraceback ") ? null : last.replace('\n', ' ');
  }

  private static SparkRuntimeException failed(String action, String said, Throwable error) {
    Map parameters = new HashMap();
    parameters.put("action", action);
    parameters.put("type", "lakeroot");
    parameters.put("msg", said);
    return new SparkRuntimeException(
        "PYTHON_DATA_SOURCE_ERROR",
        (scala.collection.immutable.Map)
            scala.collection.immutable.Map$.MODULE$.from(
                scala.jdk.javaapi.CollectionConverters.asScala(parameters)),
        error,
        new QueryContext[0],
        "");
  }
}
