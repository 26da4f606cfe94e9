// Writing a table, in one go or as a stream: tasks write, Python commits in the driver.
// Compiled as one with the catalog.
package lakeroot.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Base64;
import org.apache.spark.sql.classic.SparkSession;
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
import org.apache.spark.sql.execution.datasources.v2.python.PythonBatchWriterFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonStreamingWriterFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;
import org.apache.spark.sql.internal.SQLConf;

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
  static final String BATCH = "streaming.sql.batchId";
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
    byte[] function = prepared(table.about("prepare_write"));
    if (((JsonNode) plan.get("batches")).asBoolean()) return batches(function);
    return new PythonBatchWriterFactory(
        table.bridge.source, function, info.schema(), scala.Option.empty(), scala.Option.empty());
  }

  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo physical) {
    ObjectNode request = table.about("prepare_stream");
    // The number of the micro-batch, which Spark tells its jobs and no writer before the commit.
    String number = SparkSession.active().sparkContext().getLocalProperty(BATCH);
    if (number != null) request.put("batch", Long.parseLong(number));
    byte[] function = prepared(request);
    if (((JsonNode) plan.get("batches")).asBoolean()) return batches(function);
    return new PythonStreamingWriterFactory(
        table.bridge.source, function, info.schema(), scala.Option.empty(), scala.Option.empty());
  }

  byte[] prepared(ObjectNode request) {
    request.put("schema", info.schema().json());
    request.put("overwrite", overwrite);
    request.put("query", info.queryId());
    table.bridge.put(request, "options", info.options().asCaseSensitiveMap());
    plan = table.bridge.ask(request);
    return table.bridge.bytes((JsonNode) plan.get("function"));
  }

  ArrowWrites batches(byte[] function) {
    long bytes = ((JsonNode) plan.get("bytes")).asLong();
    String what = ((JsonNode) plan.get("what")).asText();
    return new ArrowWrites(
        table.bridge.source, function, info.schema(), SQLConf.get(), bytes, what);
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
    table.publish(about("commit_write", messages));
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
