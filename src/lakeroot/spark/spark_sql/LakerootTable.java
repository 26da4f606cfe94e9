// A table of the catalog: what it can do, and where its rows are read, written and deleted.
// Compiled as one with the catalog.
package lakeroot.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsDeleteV2;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.FloatType$;
import org.apache.spark.sql.types.LongType$;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

class LakerootTable
    implements Table, SupportsRead, SupportsWrite, SupportsDeleteV2, SupportsMetadataColumns {
  final String name;
  final Bridge bridge;
  final StructType schema;
  JsonNode found;

  LakerootTable(String name, Bridge bridge, JsonNode found) {
    this(name, bridge, found, bridge.schema(found));
  }

  LakerootTable(String name, Bridge bridge, JsonNode found, StructType schema) {
    this.name = name;
    this.bridge = bridge;
    this.found = found;
    this.schema = schema;
  }

  public String name() { return name; }

  public StructType schema() { return schema; }

  // The version is no property that a table could be made with.
  public Map properties() {
    Map all = bridge.map((JsonNode) found.get("properties"));
    if (LakerootCatalog.asks("ShowCreateTableExec")) all.remove("version");
    return all;
  }

  public Set capabilities() {
    Set set = new HashSet();
    set.add(TableCapability.BATCH_READ);
    set.add(TableCapability.BATCH_WRITE);
    set.add(TableCapability.TRUNCATE);
    set.add(TableCapability.STREAMING_WRITE);
    return set;
  }

  public MetadataColumn[] metadataColumns() {
    return new MetadataColumn[] {
      new MadeColumn("_rowid", LongType$.MODULE$),
      new MadeColumn("_rowaddr", LongType$.MODULE$),
      new MadeColumn("_distance", FloatType$.MODULE$),
      new MadeColumn("_score", FloatType$.MODULE$)
    };
  }

  ObjectNode about(String op) {
    ObjectNode request = bridge.request(op);
    request.set("table", (JsonNode) found.get("table"));
    return request;
  }

  // Make what a job has written visible.
  void publish(ObjectNode request) { bridge.ask(request); }

  // Options of a query may bound the rows, and a count would not know.
  boolean countable(CaseInsensitiveStringMap options) { return options.isEmpty(); }

  MicroBatchStream stream(StructType wanted) {
    throw new UnsupportedOperationException("A stream is read with format(\"lakeroot\")");
  }

  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new LakerootScanBuilder(this, options);
  }

  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new LakerootWriteBuilder(this, info);
  }

  public boolean canDeleteWhere(Predicate[] predicates) {
    ObjectNode request = about("push");
    bridge.predicates(request, predicates);
    JsonNode taken = bridge.ask(request);
    for (int i = 0; i < taken.size(); i++) {
      if (((JsonNode) taken.get(i)).isNull())
        throw bridge.unsupported(
            "delete",
            "UnsupportedOperationError: Lance cannot evaluate the condition "
                + predicates[i]
                + ". Run the statement with lakeroot.spark.sql(spark, ...), which can");
    }
    return true;
  }

  public void deleteWhere(Predicate[] predicates) {
    ObjectNode request = about("delete");
    bridge.predicates(request, predicates);
    bridge.ask(request);
  }

  public boolean truncateTable() {
    bridge.ask(about("truncate"));
    return true;
  }
}

// A table whose rows Spark is to update or merge, which says who can.
class ChangedTable extends LakerootTable implements SupportsRowLevelOperations {
  final String change;

  ChangedTable(String name, Bridge bridge, JsonNode found, String change) {
    super(name, bridge, found);
    this.change = change;
  }

  public RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo info) {
    throw refused();
  }

  // A MERGE that only inserts is an append to Spark.
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) { throw refused(); }

  RuntimeException refused() {
    return bridge.unsupported(
        change,
        "UnsupportedOperationError: Spark cannot "
            + change
            + " rows of table "
            + name
            + ". Run the statement with lakeroot.spark.sql(spark, ...), which can");
  }
}

// In no file: where a row is, and how well a search has found it.
class MadeColumn implements MetadataColumn {
  final String name;
  final DataType type;

  MadeColumn(String name, DataType type) {
    this.name = name;
    this.type = type;
  }

  public String name() { return name; }

  public DataType dataType() { return type; }
}
