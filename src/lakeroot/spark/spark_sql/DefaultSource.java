// Where Spark looks for format("lakeroot"): a class of this name comes before a source in Python.
// What it finds here is made by the driver's Python when it is needed first; where that cannot be,
// and where the session wants rows, it is the source in Python after all.
package lakeroot;

import java.util.Map;
import java.util.Properties;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.classic.SparkSession$;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

public class DefaultSource implements TableProvider {
  private final TableProvider real = made();

  private static TableProvider made() {
    if (settings().getConfString("spark.lakeroot.columnar", "true").equals("true")) {
      Supplier sources = sources();
      if (sources != null) return (TableProvider) sources.get();
    }
    PythonDataSourceV2 rows = new PythonDataSourceV2();
    rows.setShortName("lakeroot");
    return rows;
  }

  // A thread that Python has started has no active session.
  private static SQLConf settings() {
    scala.Option session = SparkSession$.MODULE$.getActiveSession();
    if (session.isEmpty()) session = SparkSession$.MODULE$.getDefaultSession();
    return session.isEmpty() ? SQLConf.get() : ((SparkSession) session.get()).sessionState().conf();
  }

  private static synchronized Supplier sources() {
    Properties known = System.getProperties();
    // What was made for a context that has ended is of no use to the one after it.
    String running = settings().getConfString("spark.app.id", "");
    if (!running.equals(known.get("lakeroot.spark.application"))) return null;
    Function python = (Function) known.get("lakeroot.spark.making");
    // Asked once, whatever comes of it.
    if (python != null) {
      known.remove("lakeroot.spark.making");
      python.apply("");
    }
    return (Supplier) known.get("lakeroot.spark.sources");
  }

  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return real.inferSchema(options);
  }

  public Transform[] inferPartitioning(CaseInsensitiveStringMap options) {
    return real.inferPartitioning(options);
  }

  public Table getTable(StructType schema, Transform[] partitioning, Map properties) {
    return real.getTable(schema, partitioning, properties);
  }

  public boolean supportsExternalMetadata() { return real.supportsExternalMetadata(); }
}
