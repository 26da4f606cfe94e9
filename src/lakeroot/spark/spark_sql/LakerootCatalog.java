// A Spark catalog with no logic of its own: every question is asked in Python, as JSON.
// This text is compiled inside the driver by the Janino that Spark ships, so: no lambdas, no
// diamonds, casts where a generic type would do, and classes that only the driver ever loads.
package lakeroot.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.trees.CurrentOrigin;
import org.apache.spark.sql.catalyst.trees.Origin;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

public class LakerootCatalog implements StagingTableCatalog, SupportsNamespaces {
  static final Pattern COMMENT = Pattern.compile("--[^\\n]*+|/\\*.*?\\*/", Pattern.DOTALL);
  // What stands before the name of the table.
  static final Pattern MERGE =
      Pattern.compile(
          "\\bMERGE(?:\\s++WITH\\s++SCHEMA\\s++EVOLUTION)?\\s++INTO(?:\\s++IDENTIFIER\\s*+\\()?\\s*+$",
          Pattern.CASE_INSENSITIVE);
  final String name;
  final Bridge bridge;
  // The table that a thread is about to stream into, and that the stream will make.
  final ThreadLocal coming = new ThreadLocal();

  public LakerootCatalog(String name, Object python, Object source) {
    this.name = name;
    this.bridge = new Bridge(name, (Function) python, (UserDefinedPythonDataSource) source);
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

  // What a statement looks up by key, in JSON; nothing, if it is any other statement.
  public String lookup(Object frame) {
    org.apache.spark.sql.classic.Dataset rows = (org.apache.spark.sql.classic.Dataset) frame;
    ObjectNode found = new Lookups(this).of(rows.queryExecution().analyzed());
    return found == null ? null : found.toString();
  }

  // What Python answers is either {"ok": ...} or {"error": kind, "message": text}. Spark's errors
  // are thrown undeclared: else every caller had to catch those that its interface does not name.
  JsonNode ask(ObjectNode request, Identifier ident, String[] namespace) {
    JsonNode answer = bridge.raw(request);
    if (!answer.has("error")) return (JsonNode) answer.get("ok");
    String kind = ((JsonNode) answer.get("error")).asText();
    String message = ((JsonNode) answer.get("message")).asText();
    Throwable known = known(kind, message, ident, namespace);
    if (known != null) throw Bridge.thrown(known);
    throw bridge.failure(request, message);
  }

  static Throwable known(String kind, String message, Identifier ident, String[] namespace) {
    if (kind.equals("NoSuchTable") && ident != null) return new NoSuchTableException(ident);
    if (kind.equals("TableExists") && ident != null) return new TableAlreadyExistsException(ident);
    if (kind.equals("NoSuchNamespace")) return new NoSuchNamespaceException(namespace);
    if (kind.equals("NamespaceExists")) return new NamespaceAlreadyExistsException(namespace);
    if (kind.equals("NamespaceNotEmpty"))
      return new NonEmptyNamespaceException(namespace, message, scala.Option.empty());
    return null;
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

  public Identifier[] listTables(String[] namespace) {
    JsonNode found = ask(aboutNamespace("list_tables", namespace), null, namespace);
    Identifier[] tables = new Identifier[found.size()];
    for (int i = 0; i < tables.length; i++)
      tables[i] = Identifier.of(namespace, ((JsonNode) found.get(i)).asText());
    return tables;
  }

  Table load(ObjectNode request, Identifier ident) {
    return new LakerootTable(called(ident), bridge, found(request, ident));
  }

  String called(Identifier ident) { return name + "." + ident.toString(); }

  JsonNode found(ObjectNode request, Identifier ident) {
    try {
      return ask(request, ident, ident.namespace());
    } catch (Exception error) {
      if (error instanceof NoSuchNamespaceException)
        throw Bridge.thrown(new NoSuchTableException(ident));
      throw Bridge.thrown(error);
    }
  }

  // A stream asks this before it makes its table: what one that failed has left is not there.
  public boolean tableExists(Identifier ident) {
    coming.remove();
    try {
      load(about("load_table", ident), ident);
      return true;
    } catch (Exception error) {
      if (error instanceof NoSuchTableException) return false;
      throw Bridge.thrown(error);
    }
  }

  public Table loadTable(Identifier ident) {
    LakerootTable waiting = (LakerootTable) coming.get();
    coming.remove();
    if (waiting != null && waiting.name.equals(called(ident)) && asks("DataStreamWriter"))
      return waiting;
    return load(about("load_table", ident), ident);
  }

  // For what changes the table, and says what it does to the rows.
  public Table loadTable(Identifier ident, Set privileges) {
    boolean merges = isMerge();
    if (!merges && !privileges.contains(TableWritePrivilege.UPDATE)) return loadTable(ident);
    JsonNode answer = found(about("load_table", ident), ident);
    return new ChangedTable(called(ident), bridge, answer, merges ? "merge" : "update");
  }

  // A MERGE that only inserts or deletes asks for no more than what Spark runs of itself. It would
  // run an insert as an append, which does not see what others insert meanwhile.
  static boolean isMerge() {
    Origin origin = CurrentOrigin.get();
    if (asks("MergeIntoWriter")) return true;
    if (origin.sqlText().isEmpty() || origin.startIndex().isEmpty()) return false;
    String text = (String) origin.sqlText().get();
    int begin = Math.min(((Integer) origin.startIndex().get()).intValue(), text.length());
    return MERGE.matcher(COMMENT.matcher(text.substring(0, begin)).replaceAll(" ")).find();
  }

  public Table loadTable(Identifier ident, String version) {
    ObjectNode request = about("load_table", ident);
    request.put("version", version);
    return load(request, ident);
  }

  public Table loadTable(Identifier ident, long micros) {
    ObjectNode request = about("load_table", ident);
    request.put("micros", micros);
    return load(request, ident);
  }

  ObjectNode described(String op, Identifier ident, TableInfo info) {
    ObjectNode request = about(op, ident);
    request.put("schema", info.schema().json());
    ArrayNode partitions = request.putArray("partitions");
    for (int i = 0; i < info.partitions().length; i++)
      partitions.add(info.partitions()[i].name());
    bridge.put(request, "properties", info.properties());
    if (asks("DataFrameWriter") || asks("DataStreamWriter"))
      request.put("unsaid", SQLConf.get().defaultDataSourceName());
    return request;
  }

  // Who asks: saveAsTable and toTable name a format if the user names none, and what SHOW CREATE
  // TABLE says is to be run.
  static boolean asks(String who) {
    StackTraceElement[] calls = Thread.currentThread().getStackTrace();
    for (int i = 0; i < calls.length; i++)
      if (calls[i].getClassName().endsWith(who)) return true;
    return false;
  }

  // A stream makes its table itself, when it knows that it may and what its options say.
  public Table createTable(Identifier ident, TableInfo info) {
    boolean streams = asks("DataStreamWriter");
    ObjectNode request = described(streams ? "stream_into_table" : "create_table", ident, info);
    JsonNode answer = ask(request, ident, ident.namespace());
    if (!streams) return loadTable(ident);
    LakerootTable table = new LakerootTable(called(ident), bridge, answer, info.schema());
    coming.set(table);
    return table;
  }

  // What Spark knows of the columns of another table is less than what that table says itself.
  public Table createTableLike(Identifier ident, TableInfo info, Table source) {
    ObjectNode request = described("create_table_like", ident, info);
    if (source instanceof LakerootTable) {
      LakerootTable table = (LakerootTable) source;
      request.put("columns", table.bridge.ask(table.about("arrow_schema")).asText());
    }
    ask(request, ident, ident.namespace());
    return loadTable(ident);
  }

  // What cannot be is refused now; the table is made, or its next version, when all is written.
  StagedTable staged(String op, String mode, Identifier ident, TableInfo info) {
    ObjectNode request = described(op, ident, info);
    request.put("mode", mode);
    JsonNode found = ask(request, ident, ident.namespace());
    return new LakerootStagedTable(called(ident), bridge, found, info.schema());
  }

  public StagedTable stageCreate(Identifier ident, TableInfo info) {
    return staged("create_table_as_select", "create", ident, info);
  }

  public StagedTable stageReplace(Identifier ident, TableInfo info) {
    return staged("replace_table", "replace", ident, info);
  }

  public StagedTable stageCreateOrReplace(Identifier ident, TableInfo info) {
    return staged("replace_table", "overwrite", ident, info);
  }

  public Table alterTable(Identifier ident, TableChange[] changes) {
    ObjectNode request = about("alter_table", ident);
    ArrayNode list = request.putArray("changes");
    for (int i = 0; i < changes.length; i++) {
      ObjectNode change = list.addObject();
      change.put("kind", changes[i].getClass().getSimpleName());
      if (changes[i] instanceof TableChange.ColumnChange)
        bridge.names(change, "column", ((TableChange.ColumnChange) changes[i]).fieldNames());
      if (changes[i] instanceof TableChange.AddColumn)
        describe(change, (TableChange.AddColumn) changes[i]);
      if (changes[i] instanceof TableChange.RenameColumn)
        change.put("name", ((TableChange.RenameColumn) changes[i]).newName());
      if (changes[i] instanceof TableChange.UpdateColumnNullability)
        change.put("nullable", ((TableChange.UpdateColumnNullability) changes[i]).nullable());
    }
    return load(request, ident);
  }

  void describe(ObjectNode change, TableChange.AddColumn column) {
    // Of a type alone the JSON says no collation; of a column it does.
    change.put("field", new StructType().add("new", column.dataType()).json());
    change.put("nullable", column.isNullable());
    if (column.comment() != null) change.put("comment", column.comment());
    if (column.position() != null) change.put("position", column.position().toString());
  }

  public boolean dropTable(Identifier ident) {
    return ask(about("drop_table", ident), ident, ident.namespace()).asBoolean();
  }

  public void renameTable(Identifier from, Identifier to) {
    ObjectNode request = about("rename_table", from);
    String[] given = to.namespace();
    // Spark does not look for a catalog in the new name.
    int own = given.length > 0 && given[0].equals(name) ? 1 : 0;
    String[] names = new String[given.length - own + 1];
    for (int i = own; i < given.length; i++) names[i - own] = given[i];
    names[given.length - own] = to.name();
    bridge.names(request, "to", names);
    try {
      ask(request, from, from.namespace());
    } catch (Exception error) {
      if (error instanceof TableAlreadyExistsException)
        throw Bridge.thrown(new TableAlreadyExistsException(to));
      if (!(error instanceof NoSuchNamespaceException)) throw Bridge.thrown(error);
      if (own == 0 && given.length > 0 && isCatalog(given[0]))
        throw bridge.unsupported(
            "rename table",
            "UnsupportedOperationError: A table cannot be moved into another catalog, "
                + given[0]
                + ". Copy it with CREATE TABLE ... AS SELECT, and drop it");
      throw Bridge.thrown(new NoSuchNamespaceException(given));
    }
  }

  boolean isCatalog(String other) {
    return org.apache.spark.sql.classic.SparkSession.active()
        .sessionState().catalogManager().isCatalogRegistered(other);
  }

  public String[][] listNamespaces() {
    return listNamespaces(new String[0]);
  }

  public String[][] listNamespaces(String[] parent) {
    JsonNode found = ask(aboutNamespace("list_namespaces", parent), null, parent);
    String[][] all = new String[found.size()][];
    for (int i = 0; i < all.length; i++) {
      String[] one = new String[parent.length + 1];
      for (int j = 0; j < parent.length; j++) one[j] = parent[j];
      one[parent.length] = ((JsonNode) found.get(i)).asText();
      all[i] = one;
    }
    return all;
  }

  public Map loadNamespaceMetadata(String[] namespace) {
    JsonNode found = ask(aboutNamespace("describe_namespace", namespace), null, namespace);
    return bridge.map(found);
  }

  public void createNamespace(String[] namespace, Map properties) {
    ObjectNode request = aboutNamespace("create_namespace", namespace);
    bridge.put(request, "properties", properties);
    ask(request, null, namespace);
  }

  public void alterNamespace(String[] namespace, NamespaceChange[] changes) {
    throw new UnsupportedOperationException("Properties of a namespace are set when it is created");
  }

  public boolean dropNamespace(String[] namespace, boolean cascade) {
    ObjectNode request = aboutNamespace("drop_namespace", namespace);
    request.put("cascade", cascade);
    return ask(request, null, namespace).asBoolean();
  }
}
