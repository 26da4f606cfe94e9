// How an executor hands rows to a Python worker: in batches that are bounded as the rows go in.
// Spark's own way measures all vectors of the batch again after every single row, which costs
// several times what filling them does. Compiled like the catalog, and sent to the executors.
package lakeroot.spark;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.api.python.ChainedPythonFunctions;
import org.apache.spark.api.python.PythonEvalType;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.datasources.v2.python.PythonCustomMetric;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.execution.python.ArrowPythonRunner;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

// One function of Python over the rows of a task, for a job of its own, Spark's INSERT or a stream.
public class ArrowWrites
    implements FlatMapFunction, DataWriterFactory, StreamingDataWriterFactory, Serializable {
  private static final long serialVersionUID = 1L;
  private final PythonFunction function;
  private final StructType schema;
  private final scala.collection.immutable.Map settings;
  private final String timeZone;
  private final boolean largeTypes;
  private final int rowsPerBatch;
  private final long bytesPerBatch;
  final String what;

  public ArrowWrites(
      Object source, byte[] pickled, Object schema, Object conf, long bytes, String what) {
    SQLConf settings = (SQLConf) conf;
    this.function = ((UserDefinedPythonDataSource) source).createPythonFunction(pickled);
    this.schema = (StructType) schema;
    this.settings = ArrowPythonRunner.getPythonRunnerConfMap(settings);
    this.timeZone = settings.sessionLocalTimeZone();
    this.largeTypes = settings.arrowUseLargeVarTypes();
    this.what = what;
    int rows = settings.arrowMaxRecordsPerBatch();
    this.rowsPerBatch = rows > 0 ? rows : Integer.MAX_VALUE;
    this.bytesPerBatch = Math.min(bytes, settings.arrowMaxBytesPerBatch());
  }

  // Run the function over all rows of a frame; what the tasks return, in no particular order.
  public Object run(Object frame) {
    final Dataset rows = (Dataset) frame;
    final ArrowWrites task = this;
    return SQLExecution.withNewExecutionId(
        rows.queryExecution(),
        scala.Option.empty(),
        new scala.runtime.AbstractFunction0() {
          public Object apply() {
            return rows.queryExecution().toRdd().toJavaRDD().mapPartitions(task).collect();
          }
        });
  }

  public Iterator call(Object rows) { return messages((Iterator) rows).iterator(); }

  public DataWriter createWriter(int partition, long task) { return new ArrowWriting(this); }

  public DataWriter createWriter(int partition, long task, long batch) {
    return new ArrowWriting(this);
  }

  List messages(Iterator rows) {
    List functions = new ArrayList();
    functions.add(function);
    List chains = new ArrayList();
    chains.add(new scala.Tuple2(new ChainedPythonFunctions(seq(functions)), Long.valueOf(0L)));
    ArrowPythonRunner runner =
        new ArrowPythonRunner(
            seq(chains),
            PythonEvalType.SQL_MAP_ARROW_ITER_UDF(),
            new int[][] {{0}},
            new StructType().add("struct", schema),
            timeZone,
            largeTypes,
            settings,
            PythonCustomMetric.pythonMetrics(),
            scala.Option.empty(),
            scala.Option.empty());
    TaskContext context = TaskContext.get();
    RowBatches batches = new RowBatches(rows, schema, rowsPerBatch, bytesPerBatch);
    scala.collection.Iterator found =
        runner.compute(scala(batches), context.partitionId(), context);
    List messages = new ArrayList();
    while (found.hasNext()) {
      ColumnarBatch batch = (ColumnarBatch) found.next();
      ArrowColumnVector message = (ArrowColumnVector) ((ArrowColumnVector) batch.column(0)).getChild(0);
      for (int i = 0; i < batch.numRows(); i++) messages.add(message.getBinary(i));
    }
    return messages;
  }

  static scala.collection.Iterator scala(Iterator iterator) {
    return scala.jdk.javaapi.CollectionConverters.asScala(iterator);
  }

  private static scala.collection.immutable.Seq seq(List list) {
    return scala.jdk.javaapi.CollectionConverters.asScala(list).toSeq();
  }
}

// Rows in batches. A row's own bytes are counted, which costs nothing, because strings, bytes and
// vectors may be of any length.
class RowBatches implements Iterator {
  final Iterator rows;
  final UnsafeProjection projection;
  final int most;
  final long mostBytes;
  // Spark's worker wraps columns into one struct; each row is written before the next is taken.
  final InternalRow wrapper = new GenericInternalRow(1);

  RowBatches(Iterator rows, StructType schema, int most, long mostBytes) {
    this.rows = rows;
    this.projection = UnsafeProjection.create(schema);
    this.most = most;
    this.mostBytes = mostBytes;
  }

  public boolean hasNext() { return rows.hasNext(); }

  public Object next() { return ArrowWrites.scala(new RowBatch(this)); }

  public void remove() { throw new UnsupportedOperationException(); }
}

class RowBatch implements Iterator {
  final RowBatches all;
  int count = 0;
  long bytes = 0;

  RowBatch(RowBatches all) { this.all = all; }

  public boolean hasNext() {
    return count < all.most && bytes < all.mostBytes && all.rows.hasNext();
  }

  public Object next() {
    Object row = all.rows.next();
    if (!(row instanceof UnsafeRow)) row = all.projection.apply((InternalRow) row);
    count++;
    bytes += ((UnsafeRow) row).getSizeInBytes();
    all.wrapper.update(0, row);
    return all.wrapper;
  }

  public void remove() { throw new UnsupportedOperationException(); }
}

class ArrowWriting implements DataWriter {
  final ArrowWrites task;
  byte[] message;

  ArrowWriting(ArrowWrites task) { this.task = task; }

  public void write(Object row) {
    throw new UnsupportedOperationException("The rows of a task are written all at once");
  }

  public void writeAll(Iterator rows) {
    try {
      message = (byte[]) task.messages(rows).get(0);
    } catch (Throwable error) {
      throw TaskFailure.of(error, "write", task.what);
    }
  }

  public WriterCommitMessage commit() { return new PythonWriterCommitMessage(message); }

  // What was written stays unseen; the driver removes it by the receipts.
  public void abort() {}

  public void close() {}
}
