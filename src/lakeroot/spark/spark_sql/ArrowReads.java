// How an executor reads: batches of Arrow vectors as the Python worker sends them, never rows.
// Spark's own reader for Python sources copies every row out of the vectors before a query sees
// it, which costs more than the scan. Compiled like the catalog, and sent to the executors.
package lakeroot.spark;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.arrow.vector.BaseFixedWidthVector;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.BitVector;
import org.apache.arrow.vector.DateDayVector;
import org.apache.arrow.vector.DecimalVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.Float4Vector;
import org.apache.arrow.vector.Float8Vector;
import org.apache.arrow.vector.IntVector;
import org.apache.arrow.vector.SmallIntVector;
import org.apache.arrow.vector.TimeStampMicroTZVector;
import org.apache.arrow.vector.TimeStampMicroVector;
import org.apache.arrow.vector.TinyIntVector;
import org.apache.arrow.vector.ValueVector;
import org.apache.arrow.vector.VarBinaryVector;
import org.apache.arrow.vector.VarCharVector;
import org.apache.arrow.vector.complex.ListVector;
import org.apache.spark.TaskContext;
import org.apache.spark.api.python.ChainedPythonFunctions;
import org.apache.spark.api.python.PythonEvalType;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonCustomMetric;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.execution.python.ArrowPythonRunner;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

public class ArrowReads implements PartitionReaderFactory, Serializable {
  private static final long serialVersionUID = 1L;
  private final PythonFunction function;
  private final scala.collection.immutable.Map settings;
  private final String timeZone;
  private final String what;

  public ArrowReads(UserDefinedPythonDataSource source, byte[] pickled, String what) {
    this.function = source.createPythonFunction(pickled);
    this.settings = ArrowPythonRunner.getPythonRunnerConfMap(SQLConf.get());
    this.timeZone = SQLConf.get().sessionLocalTimeZone();
    this.what = what;
  }

  public boolean supportColumnarReads(InputPartition partition) { return true; }

  public PartitionReader createReader(InputPartition partition) {
    throw new UnsupportedOperationException("These partitions are read in columns");
  }

  public PartitionReader createColumnarReader(InputPartition partition) {
    List functions = new ArrayList();
    functions.add(function);
    List chains = new ArrayList();
    chains.add(new scala.Tuple2(new ChainedPythonFunctions(seq(functions)), Long.valueOf(0L)));
    // The task goes in as a batch of one row; Spark's worker wraps columns into one struct.
    StructType wrapped =
        new StructType().add("struct", UserDefinedPythonDataSource.readInputSchema());
    ArrowPythonRunner runner =
        new ArrowPythonRunner(
            seq(chains),
            PythonEvalType.SQL_MAP_ARROW_ITER_UDF(),
            new int[][] {{0}},
            wrapped,
            timeZone,
            false,
            settings,
            PythonCustomMetric.pythonMetrics(),
            scala.Option.empty(),
            scala.Option.empty());
    byte[] task = ((PythonInputPartition) partition).pickedPartition();
    InternalRow row = new GenericInternalRow(new Object[] {task});
    List rows = new ArrayList();
    rows.add(new GenericInternalRow(new Object[] {row}));
    List batches = new ArrayList();
    batches.add(seq(rows).iterator());
    TaskContext context = TaskContext.get();
    return new ArrowBatches(
        runner.compute(seq(batches).iterator(), context.partitionId(), context), what);
  }

  private static scala.collection.immutable.Seq seq(List list) {
    return scala.jdk.javaapi.CollectionConverters.asScala(list).toSeq();
  }
}

class ArrowBatches implements PartitionReader {
  private final scala.collection.Iterator batches;
  private final String what;
  private ArrowColumnVector struct;
  private ColumnVector[] columns;

  ArrowBatches(scala.collection.Iterator batches, String what) {
    this.batches = batches;
    this.what = what;
  }

  // Here the worker is waited for, and here it is found dead.
  public boolean next() {
    try {
      return batches.hasNext();
    } catch (Throwable error) {
      throw TaskFailure.of(error, "read", what);
    }
  }

  public Object get() {
    ColumnarBatch batch = (ColumnarBatch) batches.next();
    ArrowColumnVector found = (ArrowColumnVector) batch.column(0);
    if (found != struct) {
      struct = found;
      int count = ((StructType) found.dataType()).length();
      columns = new ColumnVector[count];
      for (int i = 0; i < count; i++) columns[i] = FlatVector.of((ArrowColumnVector) found.getChild(i));
    }
    for (int i = 0; i < columns.length; i++)
      if (columns[i] instanceof FlatVector) ((FlatVector) columns[i]).point();
    return new ColumnarBatch(columns, batch.numRows());
  }

  // Spark ends the worker and frees the vectors with the task.
  public void close() {}
}

// Spark closes the vectors of a batch that it is done with, but the next batch comes in the same.
class KeptVector extends ArrowColumnVector {
  KeptVector(ValueVector vector) { super(vector); }

  public void closeIfFreeable() {}

  public void close() {}
}

// A vector read straight from its memory. Arrow's own accessors check bounds and nulls again on
// every value, which a loop that Spark has generated over `numRows` does not need.
class FlatVector extends ColumnVector {
  private final ValueVector vector;
  private final FlatVector items;
  private long values;
  private long offsets;
  private long validity;
  private int nulls;

  private FlatVector(DataType type, ValueVector vector, FlatVector items) {
    super(type);
    this.vector = vector;
    this.items = items;
  }

  static ColumnVector of(ArrowColumnVector column) {
    FlatVector flat = flat(column.dataType(), column.getValueVector());
    return flat == null
        ? (ColumnVector) new KeptVector(column.getValueVector())
        : (ColumnVector) flat;
  }

  private static FlatVector flat(DataType type, ValueVector vector) {
    if (vector instanceof ListVector && !vector.getClass().getSimpleName().equals("MapVector")) {
      ValueVector inner = ((ListVector) vector).getDataVector();
      FlatVector items = flat(new ArrowColumnVector(inner).dataType(), inner);
      return items == null ? null : new FlatVector(type, vector, items);
    }
    if (vector instanceof BitVector
        || vector instanceof TinyIntVector
        || vector instanceof SmallIntVector
        || vector instanceof IntVector
        || vector instanceof BigIntVector
        || vector instanceof Float4Vector
        || vector instanceof Float8Vector
        || vector instanceof DateDayVector
        || vector instanceof TimeStampMicroVector
        || vector instanceof TimeStampMicroTZVector
        || vector instanceof DecimalVector
        || vector instanceof VarCharVector
        || vector instanceof VarBinaryVector) return new FlatVector(type, vector, null);
    return null;
  }

  // The next batch lies elsewhere in memory, in the same vectors.
  void point() {
    FieldVector field = (FieldVector) vector;
    nulls = field.getNullCount();
    validity = nulls == 0 ? 0L : field.getValidityBuffer().memoryAddress();
    if (vector instanceof BaseFixedWidthVector) {
      values = field.getDataBuffer().memoryAddress();
    } else {
      offsets = field.getOffsetBuffer().memoryAddress();
      if (items == null) values = field.getDataBuffer().memoryAddress();
      else items.point();
    }
  }

  public void close() {}

  public boolean hasNull() { return nulls > 0; }

  public int numNulls() { return nulls; }

  public boolean isNullAt(int row) {
    return nulls > 0 && (Platform.getByte(null, validity + (row >> 3)) >> (row & 7) & 1) == 0;
  }

  public boolean getBoolean(int row) {
    return (Platform.getByte(null, values + (row >> 3)) >> (row & 7) & 1) == 1;
  }

  public byte getByte(int row) { return Platform.getByte(null, values + row); }

  public short getShort(int row) { return Platform.getShort(null, values + 2L * row); }

  public int getInt(int row) { return Platform.getInt(null, values + 4L * row); }

  public long getLong(int row) { return Platform.getLong(null, values + 8L * row); }

  public float getFloat(int row) { return Platform.getFloat(null, values + 4L * row); }

  public double getDouble(int row) { return Platform.getDouble(null, values + 8L * row); }

  public float[] getFloats(int row, int count) {
    float[] copy = new float[count];
    Platform.copyMemory(null, values + 4L * row, copy, Platform.FLOAT_ARRAY_OFFSET, 4L * count);
    return copy;
  }

  public double[] getDoubles(int row, int count) {
    double[] copy = new double[count];
    Platform.copyMemory(null, values + 8L * row, copy, Platform.DOUBLE_ARRAY_OFFSET, 8L * count);
    return copy;
  }

  public Decimal getDecimal(int row, int precision, int scale) {
    if (isNullAt(row)) return null;
    // Up to 18 digits fit the lower half of the 128 bits, sign and all.
    if (precision <= 18)
      return Decimal.createUnsafe(Platform.getLong(null, values + 16L * row), precision, scale);
    return Decimal.apply(((DecimalVector) vector).getObject(row), precision, scale);
  }

  private int start(int row) { return Platform.getInt(null, offsets + 4L * row); }

  public UTF8String getUTF8String(int row) {
    if (isNullAt(row)) return null;
    int start = start(row);
    return UTF8String.fromAddress(null, values + start, start(row + 1) - start);
  }

  public byte[] getBinary(int row) {
    if (isNullAt(row)) return null;
    int start = start(row);
    byte[] copy = new byte[start(row + 1) - start];
    Platform.copyMemory(null, values + start, copy, Platform.BYTE_ARRAY_OFFSET, copy.length);
    return copy;
  }

  public ColumnarArray getArray(int row) {
    if (isNullAt(row)) return null;
    int start = start(row);
    return new ColumnarArray(items, start, start(row + 1) - start);
  }

  public ColumnarMap getMap(int row) {
    throw new UnsupportedOperationException("A flat vector holds no maps");
  }

  public ColumnVector getChild(int ordinal) {
    throw new UnsupportedOperationException("A flat vector has no children");
  }
}
