// format("lakeroot") in a classic session: the catalog's tables, found by options instead of names,
// and the streams out of them and into them. Compiled as one with the catalog.
package lakeroot.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxFiles;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.errors.QueryCompilationErrors$;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

// Spark makes a new source for every load, save and stream; this makes it know Python.
class LakerootSources implements Supplier {
  final Bridge bridge;

  LakerootSources(Object python, Object source) {
    this.bridge = new SourceBridge((Function) python, (UserDefinedPythonDataSource) source);
  }

  public Object get() { return new LakerootSource(bridge); }
}

// Errors have the class that Spark gives to errors of sources in Python.
class SourceBridge extends Bridge {
  SourceBridge(Function python, UserDefinedPythonDataSource source) {
    super("lakeroot", python, source);
  }

  RuntimeException unsupported(String op, String message) {
    throw thrown(QueryCompilationErrors$.MODULE$.pythonDataSourceError(op, "lakeroot", message));
  }
}

class LakerootSource implements TableProvider {
  final Bridge bridge;
  JsonNode found;

  LakerootSource(Bridge bridge) { this.bridge = bridge; }

  public StructType inferSchema(CaseInsensitiveStringMap options) {
    ObjectNode request = bridge.request("load");
    bridge.put(request, "options", options.asCaseSensitiveMap());
    found = bridge.ask(request);
    return bridge.schema(found);
  }

  // Called for writes too, and for reads whose schema the user gives: then nothing is found yet.
  public Table getTable(StructType schema, Transform[] partitioning, Map properties) {
    // What a user says of nulls is not checked, and Spark would believe it.
    StructType safe = found == null ? schema.asNullable() : schema;
    return new SourceTable(bridge, found, safe, properties);
  }

  public boolean supportsExternalMetadata() { return true; }
}

class SourceTable extends LakerootTable {
  final Map options;

  SourceTable(Bridge bridge, JsonNode found, StructType schema, Map options) {
    super("lakeroot", bridge, found, schema);
    this.options = options;
  }

  public Map properties() { return new java.util.HashMap(); }

  public Set capabilities() {
    Set set = super.capabilities();
    set.add(TableCapability.MICRO_BATCH_READ);
    return set;
  }

  // The version is found once: all that is done with a frame is done with the same rows.
  synchronized void find() {
    if (found != null) return;
    ObjectNode request = bridge.request("load");
    bridge.put(request, "options", options);
    request.put("schema", schema.json());
    found = bridge.ask(request);
  }

  ObjectNode about(String op) {
    if (found != null) return super.about(op);
    return bridge.request(op);
  }

  boolean countable(CaseInsensitiveStringMap ignored) {
    return ((JsonNode) found.get("countable")).asBoolean();
  }

  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap ignored) {
    find();
    return new LakerootScanBuilder(this, new CaseInsensitiveStringMap(options));
  }

  // A frame is read; rows are deleted with the catalog or with a job.
  public boolean canDeleteWhere(Predicate[] predicates) { return false; }

  MicroBatchStream stream(StructType wanted) { return new TableStream(this, wanted); }
}

// An offset is text that only Python reads.
class TextOffset extends Offset {
  final String text;

  TextOffset(String text) { this.text = text; }

  public String json() { return text; }
}

class TableStream implements MicroBatchStream, SupportsTriggerAvailableNow {
  final SourceTable table;
  final StructType schema;
  String last;

  TableStream(SourceTable table, StructType schema) {
    this.table = table;
    this.schema = schema;
  }

  ObjectNode about(String op) {
    ObjectNode request = table.about(op);
    table.bridge.put(request, "options", table.options);
    request.put("schema", schema.json());
    return request;
  }

  Offset offset(ObjectNode request) { return new TextOffset(table.bridge.ask(request).asText()); }

  public Offset initialOffset() { return offset(about("stream_start")); }

  public Offset deserializeOffset(String json) { return new TextOffset(json); }

  public ReadLimit getDefaultReadLimit() {
    int most = ((JsonNode) table.found.get("most")).asInt();
    return most > 0 ? ReadLimit.maxFiles(most) : ReadLimit.allAvailable();
  }

  public Offset latestOffset() {
    throw new UnsupportedOperationException("The offset depends on where the stream is");
  }

  public Offset latestOffset(Offset start, ReadLimit limit) {
    ObjectNode request = about("stream_latest");
    request.put("start", start.json());
    if (limit instanceof ReadMaxFiles) request.put("most", ((ReadMaxFiles) limit).maxFiles());
    if (last != null) request.put("last", last);
    return offset(request);
  }

  public Offset reportLatestOffset() { return offset(about("stream_newest")); }

  public void prepareForTriggerAvailableNow() { last = reportLatestOffset().json(); }

  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    ObjectNode request = about("stream_plan");
    request.put("start", start.json());
    request.put("end", end.json());
    return table.bridge.partitions(table.bridge.ask(request));
  }

  public PartitionReaderFactory createReaderFactory() {
    return table.bridge.reader(table.bridge.ask(about("stream_reader")), schema);
  }

  // The offset is all there is to a stream.
  public void commit(Offset end) {}

  public void stop() {}
}
