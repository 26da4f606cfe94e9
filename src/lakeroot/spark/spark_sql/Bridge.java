// The way from Spark to Python and back: questions and answers as JSON, errors as Spark's own.
// Compiled as one with the catalog.
package lakeroot.spark;

import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Base64;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.GeneralScalarExpression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.errors.QueryCompilationErrors$;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.PythonPartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;

class Bridge {
  final String name;
  final Function python;
  final UserDefinedPythonDataSource source;
  final ObjectMapper mapper = new ObjectMapper();
  final Map schemas = new ConcurrentHashMap();
  static final int MOST_SCHEMAS = 64;

  Bridge(String name, Function python, UserDefinedPythonDataSource source) {
    this.name = name;
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
      throw failure(request, ((JsonNode) answer.get("message")).asText());
    return (JsonNode) answer.get("ok");
  }

  // What went wrong in Python as an error of Spark's analysis, which PySpark shows without the
  // trace of Java. It never returns; its type lets callers say `throw`.
  RuntimeException failure(ObjectNode request, String message) {
    String op = ((JsonNode) request.get("op")).asText().replace('_', ' ');
    if (message.startsWith("UnsupportedOperationError: ")) throw unsupported(op, message);
    throw thrown(QueryCompilationErrors$.MODULE$.pythonDataSourceError(op, "lakeroot", message));
  }

  RuntimeException unsupported(String op, String message) {
    Map parameters = new HashMap();
    parameters.put("catalogName", "`" + name + "`");
    parameters.put("operation", op + ": " + message);
    throw thrown(
        new AnalysisException(
            "UNSUPPORTED_FEATURE.CATALOG_OPERATION",
            (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.from(
                scala.jdk.javaapi.CollectionConverters.asScala(parameters))));
  }

  // Spark's own interfaces do not declare that they throw it.
  static RuntimeException thrown(Throwable error) {
    Platform.throwException(error);
    return null;
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

  // Query after query asks about the same tables.
  StructType schema(JsonNode found) {
    String text = ((JsonNode) found.get("schema")).asText();
    StructType known = (StructType) schemas.get(text);
    if (known != null) return known;
    if (schemas.size() >= MOST_SCHEMAS) schemas.clear();
    StructType read = (StructType) DataType.fromJson(text);
    schemas.put(text, read);
    return read;
  }

  byte[] bytes(JsonNode text) { return Base64.getDecoder().decode(text.asText()); }

  PartitionReaderFactory reader(JsonNode plan, StructType schema) {
    byte[] function = bytes((JsonNode) plan.get("function"));
    // Rows without columns have no vectors.
    if (((JsonNode) plan.get("columnar")).asBoolean() && !schema.isEmpty())
      return new ArrowReads(source, function, ((JsonNode) plan.get("what")).asText());
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
