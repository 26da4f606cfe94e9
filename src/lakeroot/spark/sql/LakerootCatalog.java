// A Spark catalog with no logic of its own: every question is asked in Python, as JSON.
// This text is compiled inside the driver by the Janino that Spark ships, so: no lambdas, no
// diamonds, casts where a generic type would do, and classes that only the driver ever loads.
package lakeroot.spark;

import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.SupportsDeleteV2;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.GeneralScalarExpression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
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
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.execution.arrow.ArrowConverters$;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonBatchWriterFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.PythonPartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.LongType$;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.sql.util.CloseableIterator;

public class LakerootCatalog implements TableCatalog, SupportsNamespaces {
  final String name;
  final Bridge bridge;

  public LakerootCatalog(String name, Object python, Object source) {
    this.name = name;
    this.bridge = new Bridge((Function) python, (UserDefinedPythonDataSource) source);
  }

  public void initialize(String name, CaseInsensitiveStringMap options) {}

  public String name() { return name; }

  // A frame over one table at one version; the catalog needs no name in the session for it.
  public Object frame(Object session, String found) throws java.io.IOException {
    LakerootTable table = new LakerootTable(name, bridge, bridge.mapper.readTree(found));
    return org.apache.spark.sql.classic.Dataset$.MODULE$.ofRows(
        (org.apache.spark.sql.classic.SparkSession) session,
        DataSourceV2Relation.create(table, scala.Option.empty(), scala.Option.empty()));
  }

  // A frame of few rows that are here already: Spark runs no job to collect it.
  public Object local(Object session, String schema, byte[] stream) {
    StructType type = (StructType) DataType.fromJson(schema);
    List rows = new ArrayList();
    InternalRow[] found = RowsScan.rows(stream);
    for (int i = 0; i < found.length; i++) rows.add(found[i]);
    return org.apache.spark.sql.classic.Dataset$.MODULE$.ofRows(
        (org.apache.spark.sql.classic.SparkSession) session,
        new LocalRelation(
            DataTypeUtils.toAttributes(type),
            scala.jdk.javaapi.CollectionConverters.asScala(rows).toSeq(),
            false,
            scala.Option.empty()));
  }

  // What Python answers is either {"ok": ...} or {"error": kind, "message": text}.
  JsonNode ask(ObjectNode request, Identifier ident, String[] namespace)
      throws NoSuchTableException, TableAlreadyExistsException, NoSuchNamespaceException,
          NamespaceAlreadyExistsException, NonEmptyNamespaceException {
    JsonNode answer = bridge.raw(request);
    if (!answer.has("error")) return (JsonNode) answer.get("ok");
    String kind = ((JsonNode) answer.get("error")).asText();
    String message = ((JsonNode) answer.get("message")).asText();
    if (kind.equals("NoSuchTable") && ident != null) throw new NoSuchTableException(ident);
    if (kind.equals("TableExists") && ident != null) throw new TableAlreadyExistsException(ident);
    if (kind.equals("NoSuchNamespace")) throw new NoSuchNamespaceException(namespace);
    if (kind.equals("NamespaceExists")) throw new NamespaceAlreadyExistsException(namespace);
    if (kind.equals("NamespaceNotEmpty"))
      throw new NonEmptyNamespaceException(namespace, message, scala.Option.empty());
    throw new RuntimeException(message);
  }

  ObjectNode about(String op, Identifier ident) {
    ObjectNode request = bridge.request(op);
    ArrayNode names = request.putArray("id");
    String[] namespace = ident.namespace();
    for (int i = 0; i < namespace.length; i++) names.add(namespace[i]);
    names.add(ident.name());
    return request;
  }

  ObjectNode aboutNamespace(String op, String[] namespace) {
    ObjectNode request = bridge.request(op);
    ArrayNode names = request.putArray("id");
    for (int i = 0; i < namespace.length; i++) names.add(namespace[i]);
    return request;
  }

  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    try {
      JsonNode found = ask(aboutNamespace("list_tables", namespace), null, namespace);
      Identifier[] tables = new Identifier[found.size()];
      for (int i = 0; i < tables.length; i++)
        tables[i] = Identifier.of(namespace, ((JsonNode) found.get(i)).asText());
      return tables;
    } catch (NoSuchNamespaceException error) {
      throw error;
    } catch (RuntimeException error) {
      throw error;
    } catch (Exception error) {
      throw new RuntimeException(error.getMessage());
    }
  }

  Table load(ObjectNode request, Identifier ident) throws NoSuchTableException {
    try {
      JsonNode found = ask(request, ident, ident.namespace());
      return new LakerootTable(name + "." + ident.toString(), bridge, found);
    } catch (NoSuchTableException error) {
      throw error;
    } catch (NoSuchNamespaceException error) {
      throw new NoSuchTableException(ident);
    } catch (RuntimeException error) {
      throw error;
    } catch (Exception error) {
      throw new RuntimeException(error.getMessage());
    }
  }

  public Table loadTable(Identifier ident) throws NoSuchTableException {
    return load(about("load_table", ident), ident);
  }

  public Table loadTable(Identifier ident, String version) throws NoSuchTableException {
    ObjectNode request = about("load_table", ident);
    request.put("version", version);
    return load(request, ident);
  }

  public Table loadTable(Identifier ident, long micros) throws NoSuchTableException {
    ObjectNode request = about("load_table", ident);
    request.put("micros", micros);
    return load(request, ident);
  }

  public Table createTable(Identifier ident, TableInfo info)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    ObjectNode request = about("create_table", ident);
    request.put("schema", info.schema().json());
    request.put("partitions", info.partitions().length);
    bridge.put(request, "properties", info.properties());
    try {
      ask(request, ident, ident.namespace());
      return loadTable(ident);
    } catch (TableAlreadyExistsException error) {
      throw error;
    } catch (NoSuchNamespaceException error) {
      throw error;
    } catch (RuntimeException error) {
      throw error;
    } catch (Exception error) {
      throw new RuntimeException(error.getMessage());
    }
  }

  public Table alterTable(Identifier ident, TableChange[] changes) throws NoSuchTableException {
    ObjectNode request = about("alter_table", ident);
    ArrayNode list = request.putArray("changes");
    for (int i = 0; i < changes.length; i++) {
      ObjectNode change = list.addObject();
      change.put("kind", changes[i].getClass().getSimpleName());
      if (changes[i] instanceof TableChange.ColumnChange)
        bridge.names(change, "column", ((TableChange.ColumnChange) changes[i]).fieldNames());
      if (changes[i] instanceof TableChange.AddColumn)
        change.put("type", ((TableChange.AddColumn) changes[i]).dataType().json());
      if (changes[i] instanceof TableChange.RenameColumn)
        change.put("name", ((TableChange.RenameColumn) changes[i]).newName());
    }
    return load(request, ident);
  }

  public boolean dropTable(Identifier ident) {
    try {
      return ask(about("drop_table", ident), ident, ident.namespace()).asBoolean();
    } catch (RuntimeException error) {
      throw error;
    } catch (Exception error) {
      return false;
    }
  }

  public void renameTable(Identifier from, Identifier to)
      throws NoSuchTableException, TableAlreadyExistsException {
    ObjectNode request = about("rename_table", from);
    String[] names = new String[to.namespace().length + 1];
    for (int i = 0; i < to.namespace().length; i++) names[i] = to.namespace()[i];
    names[to.namespace().length] = to.name();
    bridge.names(request, "to", names);
    try {
      ask(request, from, from.namespace());
    } catch (NoSuchTableException error) {
      throw error;
    } catch (TableAlreadyExistsException error) {
      throw new TableAlreadyExistsException(to);
    } catch (RuntimeException error) {
      throw error;
    } catch (Exception error) {
      throw new RuntimeException(error.getMessage());
    }
  }

  public String[][] listNamespaces() throws NoSuchNamespaceException {
    return listNamespaces(new String[0]);
  }

  public String[][] listNamespaces(String[] parent) throws NoSuchNamespaceException {
    try {
      JsonNode found = ask(aboutNamespace("list_namespaces", parent), null, parent);
      String[][] all = new String[found.size()][];
      for (int i = 0; i < all.length; i++) {
        String[] one = new String[parent.length + 1];
        for (int j = 0; j < parent.length; j++) one[j] = parent[j];
        one[parent.length] = ((JsonNode) found.get(i)).asText();
        all[i] = one;
      }
      return all;
    } catch (NoSuchNamespaceException error) {
      throw error;
    } catch (RuntimeException error) {
      throw error;
    } catch (Exception error) {
      throw new RuntimeException(error.getMessage());
    }
  }

  public Map loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
    try {
      JsonNode found = ask(aboutNamespace("describe_namespace", namespace), null, namespace);
      return bridge.map(found);
    } catch (NoSuchNamespaceException error) {
      throw error;
    } catch (RuntimeException error) {
      throw error;
    } catch (Exception error) {
      throw new RuntimeException(error.getMessage());
    }
  }

  public void createNamespace(String[] namespace, Map properties)
      throws NamespaceAlreadyExistsException {
    ObjectNode request = aboutNamespace("create_namespace", namespace);
    bridge.put(request, "properties", properties);
    try {
      ask(request, null, namespace);
    } catch (NamespaceAlreadyExistsException error) {
      throw error;
    } catch (RuntimeException error) {
      throw error;
    } catch (Exception error) {
      throw new RuntimeException(error.getMessage());
    }
  }

  public void alterNamespace(String[] namespace, NamespaceChange[] changes) {
    throw new UnsupportedOperationException("Properties of a namespace are set when it is created");
  }

  public boolean dropNamespace(String[] namespace, boolean cascade)
      throws NoSuchNamespaceException, NonEmptyNamespaceException {
    ObjectNode request = aboutNamespace("drop_namespace", namespace);
    request.put("cascade", cascade);
    try {
      return ask(request, null, namespace).asBoolean();
    } catch (NoSuchNamespaceException error) {
      throw error;
    } catch (NonEmptyNamespaceException error) {
      throw error;
    } catch (RuntimeException error) {
      throw error;
    } catch (Exception error) {
      throw new RuntimeException(error.getMessage());
    }
  }
}

class Bridge {
  final Function python;
  final UserDefinedPythonDataSource source;
  final ObjectMapper mapper = new ObjectMapper();

  Bridge(Function python, UserDefinedPythonDataSource source) {
    this.python = python;
    this.source = source;
    // A plan carries the manifest of its table, and Jackson stops at 20 million characters.
    mapper.getFactory().setStreamReadConstraints(
        StreamReadConstraints.builder().maxStringLength(Integer.MAX_VALUE).build());
  }

  ObjectNode request(String op) {
    ObjectNode request = mapper.createObjectNode();
    request.put("op", op);
    return request;
  }

  JsonNode raw(ObjectNode request) {
    try {
      return mapper.readTree((String) python.apply(mapper.writeValueAsString(request)));
    } catch (java.io.IOException error) {
      throw new RuntimeException(error.getMessage());
    }
  }

  JsonNode ask(ObjectNode request) {
    JsonNode answer = raw(request);
    if (answer.has("error"))
      throw new RuntimeException(((JsonNode) answer.get("message")).asText());
    return (JsonNode) answer.get("ok");
  }

  void put(ObjectNode request, String key, Map values) {
    ObjectNode target = request.putObject(key);
    Iterator entries = values.entrySet().iterator();
    while (entries.hasNext()) {
      Map.Entry entry = (Map.Entry) entries.next();
      target.put((String) entry.getKey(), (String) entry.getValue());
    }
  }

  void names(ObjectNode request, String key, String[] names) {
    ArrayNode list = request.putArray(key);
    for (int i = 0; i < names.length; i++) list.add(names[i]);
  }

  Map map(JsonNode found) {
    Map result = new HashMap();
    Iterator keys = found.fieldNames();
    while (keys.hasNext()) {
      String key = (String) keys.next();
      result.put(key, ((JsonNode) found.get(key)).asText());
    }
    return result;
  }

  StructType schema(JsonNode found) {
    return (StructType) DataType.fromJson(((JsonNode) found.get("schema")).asText());
  }

  byte[] bytes(JsonNode text) { return Base64.getDecoder().decode(text.asText()); }

  PartitionReaderFactory reader(JsonNode plan, StructType schema) {
    byte[] function = bytes((JsonNode) plan.get("function"));
    // Rows without columns have no vectors.
    if (((JsonNode) plan.get("columnar")).asBoolean() && !schema.isEmpty())
      return new ArrowReads(source, function);
    return new PythonPartitionReaderFactory(
        source, function, schema, scala.Option.empty(), scala.Option.empty());
  }

  InputPartition[] partitions(JsonNode tasks) {
    InputPartition[] result = new InputPartition[tasks.size()];
    for (int i = 0; i < result.length; i++)
      result[i] = new PythonInputPartition(i, bytes((JsonNode) tasks.get(i)));
    return result;
  }

  void predicates(ObjectNode request, Predicate[] predicates) {
    ArrayNode list = request.putArray("predicates");
    for (int i = 0; i < predicates.length; i++) list.add(tree(predicates[i]));
  }

  ObjectNode tree(Expression expression) {
    ObjectNode node = mapper.createObjectNode();
    if (expression instanceof NamedReference) {
      names(node, "field", ((NamedReference) expression).fieldNames());
    } else if (expression instanceof Literal) {
      Literal literal = (Literal) expression;
      node.put("type", literal.dataType().simpleString());
      if (literal.value() == null) node.putNull("value");
      else node.put("value", literal.value().toString());
    } else if (expression instanceof GeneralScalarExpression) {
      node.put("name", ((GeneralScalarExpression) expression).name());
      ArrayNode children = node.putArray("children");
      Expression[] parts = expression.children();
      for (int i = 0; i < parts.length; i++) children.add(tree(parts[i]));
    } else {
      node.put("unknown", expression.getClass().getSimpleName());
    }
    return node;
  }
}

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

  public Map properties() { return bridge.map((JsonNode) found.get("properties")); }

  public Set capabilities() {
    Set set = new HashSet();
    set.add(TableCapability.BATCH_READ);
    set.add(TableCapability.BATCH_WRITE);
    set.add(TableCapability.TRUNCATE);
    return set;
  }

  public MetadataColumn[] metadataColumns() {
    return new MetadataColumn[] {new RowColumn("_rowid"), new RowColumn("_rowaddr")};
  }

  ObjectNode about(String op) {
    ObjectNode request = bridge.request(op);
    request.set("table", (JsonNode) found.get("table"));
    return request;
  }

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
    for (int i = 0; i < taken.size(); i++) if (((JsonNode) taken.get(i)).isNull()) return false;
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

class RowColumn implements MetadataColumn {
  final String name;

  RowColumn(String name) { this.name = name; }

  public String name() { return name; }

  public DataType dataType() { return LongType$.MODULE$; }
}

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
    CloseableIterator found = (CloseableIterator) ArrowConverters$.MODULE$.fromIPCStream(stream)._1();
    List copies = new ArrayList();
    while (found.hasNext()) copies.add(((InternalRow) found.next()).copy());
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
    return table.bridge.partitions((JsonNode) plan.get("tasks"));
  }

  public PartitionReaderFactory createReaderFactory() {
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

class LakerootWriteBuilder implements WriteBuilder, SupportsTruncate {
  final LakerootTable table;
  final LogicalWriteInfo info;
  boolean overwrite = false;

  LakerootWriteBuilder(LakerootTable table, LogicalWriteInfo info) {
    this.table = table;
    this.info = info;
  }

  public WriteBuilder truncate() {
    overwrite = true;
    return this;
  }

  public Write build() { return new LakerootWrite(table, info, overwrite); }
}

class LakerootWrite implements Write, BatchWrite, StreamingWrite {
  final LakerootTable table;
  final LogicalWriteInfo info;
  final boolean overwrite;
  JsonNode plan;

  LakerootWrite(LakerootTable table, LogicalWriteInfo info, boolean overwrite) {
    this.table = table;
    this.info = info;
    this.overwrite = overwrite;
  }

  public String description() { return "lakeroot " + table.name; }

  public BatchWrite toBatch() { return this; }

  public StreamingWrite toStreaming() { return this; }

  public boolean useCommitCoordinator() { return true; }

  public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
    byte[] function = prepared("prepare_write");
    if (((JsonNode) plan.get("batches")).asBoolean()) return batches(function);
    return new PythonBatchWriterFactory(
        table.bridge.source, function, info.schema(), scala.Option.empty(), scala.Option.empty());
  }

  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo physical) {
    return batches(prepared("prepare_stream"));
  }

  byte[] prepared(String op) {
    ObjectNode request = table.about(op);
    request.put("schema", info.schema().json());
    request.put("overwrite", overwrite);
    request.put("query", info.queryId());
    table.bridge.put(request, "options", info.options().asCaseSensitiveMap());
    plan = table.bridge.ask(request);
    return table.bridge.bytes((JsonNode) plan.get("function"));
  }

  ArrowWrites batches(byte[] function) {
    long bytes = ((JsonNode) plan.get("bytes")).asLong();
    return new ArrowWrites(table.bridge.source, function, info.schema(), SQLConf.get(), bytes);
  }

  ObjectNode about(String op, WriterCommitMessage[] messages) {
    ObjectNode request = table.about(op);
    request.set("write", (JsonNode) plan.get("write"));
    ArrayNode list = request.putArray("messages");
    for (int i = 0; i < messages.length; i++) {
      if (messages[i] == null) continue;
      byte[] message = ((PythonWriterCommitMessage) messages[i]).pickledMessage();
      list.add(Base64.getEncoder().encodeToString(message));
    }
    return request;
  }

  public void commit(WriterCommitMessage[] messages) {
    table.bridge.ask(about("commit_write", messages));
  }

  public void abort(WriterCommitMessage[] messages) {
    if (plan != null) table.bridge.ask(about("abort_write", messages));
  }

  public void commit(long batch, WriterCommitMessage[] messages) {
    ObjectNode request = about("commit_stream", messages);
    request.put("batch", batch);
    table.bridge.ask(request);
  }

  public void abort(long batch, WriterCommitMessage[] messages) {
    if (plan == null) return;
    ObjectNode request = about("abort_stream", messages);
    request.put("batch", batch);
    table.bridge.ask(request);
  }
}
