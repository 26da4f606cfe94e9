// Reading a table: what is pushed down to Lance, and scans by tasks, by an index or by a count.
// Compiled as one with the catalog.
package lakeroot.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection$;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.execution.arrow.ArrowConverters$;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.sql.util.CloseableIterator;

class LakerootScanBuilder
    implements ScanBuilder, SupportsPushDownV2Filters, SupportsPushDownRequiredColumns,
        SupportsPushDownLimit, SupportsPushDownAggregates {
  final LakerootTable table;
  final CaseInsensitiveStringMap options;
  StructType wanted;
  Predicate[] pushed = new Predicate[0];
  boolean complete = true;
  int limit = -1;
  boolean counting = false;

  LakerootScanBuilder(LakerootTable table, CaseInsensitiveStringMap options) {
    this.table = table;
    this.options = options;
    this.wanted = table.schema;
  }

  public Predicate[] pushPredicates(Predicate[] predicates) {
    ObjectNode request = table.about("push");
    table.bridge.predicates(request, predicates);
    table.bridge.put(request, "options", options.asCaseSensitiveMap());
    JsonNode taken = table.bridge.ask(request);
    List kept = new ArrayList();
    List left = new ArrayList();
    for (int i = 0; i < predicates.length; i++) {
      if (((JsonNode) taken.get(i)).isNull()) left.add(predicates[i]);
      else kept.add(predicates[i]);
    }
    pushed = (Predicate[]) kept.toArray(new Predicate[0]);
    complete = left.isEmpty();
    return (Predicate[]) left.toArray(new Predicate[0]);
  }

  public Predicate[] pushedPredicates() { return pushed; }

  public void pruneColumns(StructType required) { wanted = required; }

  public boolean pushLimit(int limit) {
    if (!complete) return false;
    this.limit = limit;
    return true;
  }

  public boolean isPartiallyPushed() { return true; }

  public boolean supportCompletePushDown(Aggregation aggregation) {
    return pushAggregation(aggregation);
  }

  public boolean pushAggregation(Aggregation aggregation) {
    counting = complete
        && table.countable(options)
        && aggregation.groupByExpressions().length == 0
        && aggregation.aggregateExpressions().length == 1
        && aggregation.aggregateExpressions()[0] instanceof CountStar;
    return counting;
  }

  public Scan build() {
    ObjectNode request = table.about("plan");
    table.bridge.predicates(request, pushed);
    table.bridge.names(request, "columns", wanted.fieldNames());
    // Where only the number of rows counts, Python chooses what is read for it.
    if (wanted.isEmpty()) table.bridge.names(request, "known", table.schema.fieldNames());
    table.bridge.put(request, "options", options.asCaseSensitiveMap());
    if (limit >= 0) request.put("limit", limit);
    if (counting) {
      request.put("op", "count");
      long rows = table.bridge.ask(request).asLong();
      return new CountScan(table.name, rows);
    }
    JsonNode plan = table.bridge.ask(request);
    if (plan.has("local")) return new RowsScan(table, plan);
    return new LakerootScan(table, plan);
  }
}

class CountScan implements LocalScan {
  final String name;
  final long rows;

  CountScan(String name, long rows) {
    this.name = name;
    this.rows = rows;
  }

  public StructType readSchema() { return new StructType().add("count", "long"); }

  public String description() { return "lakeroot count of " + name; }

  public InternalRow[] rows() {
    return new InternalRow[] {new GenericInternalRow(new Object[] {Long.valueOf(rows)})};
  }
}

// Few rows that an index has found: they are here already, and no job runs for them.
class RowsScan implements LocalScan, SupportsReportStatistics {
  final LakerootTable table;
  final JsonNode plan;
  final StructType schema;
  final InternalRow[] rows;

  RowsScan(LakerootTable table, JsonNode plan) {
    this.table = table;
    this.plan = plan;
    this.schema = table.bridge.schema(plan);
    this.rows = rows(table.bridge.bytes((JsonNode) plan.get("local")));
  }

  static InternalRow[] rows(byte[] stream) {
    scala.Tuple2 read = ArrowConverters$.MODULE$.fromIPCStream(stream);
    CloseableIterator found = (CloseableIterator) read._1();
    UnsafeProjection projection = null;
    List copies = new ArrayList();
    while (found.hasNext()) {
      InternalRow row = (InternalRow) found.next();
      try {
        copies.add(row.copy());
      } catch (IllegalStateException error) {
        // Spark copies an array of numbers at once, which fails over a null among them.
        if (projection == null)
          projection = UnsafeProjection$.MODULE$.create((StructType) read._2());
        copies.add(((InternalRow) projection.apply(row)).copy());
      }
    }
    try {
      found.close();
    } catch (Exception error) {
      throw new RuntimeException(error.getMessage());
    }
    return (InternalRow[]) copies.toArray(new InternalRow[0]);
  }

  public StructType readSchema() { return schema; }

  public String description() { return "lakeroot " + ((JsonNode) plan.get("text")).asText(); }

  public InternalRow[] rows() { return rows; }

  public MicroBatchStream toMicroBatchStream(String checkpoint) { return table.stream(schema); }

  public Statistics estimateStatistics() {
    return new Size(((JsonNode) plan.get("bytes")).asLong(), rows.length);
  }
}

class LakerootScan implements Scan, Batch, SupportsReportStatistics {
  final LakerootTable table;
  final JsonNode plan;
  final StructType schema;

  LakerootScan(LakerootTable table, JsonNode plan) {
    this.table = table;
    this.plan = plan;
    this.schema = table.bridge.schema(plan);
  }

  public StructType readSchema() { return schema; }

  public String description() { return "lakeroot " + ((JsonNode) plan.get("text")).asText(); }

  public Batch toBatch() { return this; }

  public MicroBatchStream toMicroBatchStream(String checkpoint) { return table.stream(schema); }

  public InputPartition[] planInputPartitions() {
    if (plan.has("refused"))
      throw table.bridge.failure(table.about("plan"), ((JsonNode) plan.get("refused")).asText());
    return table.bridge.partitions((JsonNode) plan.get("tasks"));
  }

  public PartitionReaderFactory createReaderFactory() {
    if (plan.has("refused")) planInputPartitions();
    return table.bridge.reader(plan, schema);
  }

  public Statistics estimateStatistics() {
    return new Size(((JsonNode) plan.get("bytes")).asLong(), ((JsonNode) plan.get("rows")).asLong());
  }
}

class Size implements Statistics {
  final long bytes;
  final long rows;

  Size(long bytes, long rows) {
    this.bytes = bytes;
    this.rows = rows;
  }

  public OptionalLong sizeInBytes() { return OptionalLong.of(bytes); }

  public OptionalLong numRows() { return rows < 0 ? OptionalLong.empty() : OptionalLong.of(rows); }
}
