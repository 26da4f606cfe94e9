// A table that CREATE ... AS SELECT and REPLACE are about to make: nobody sees it before the end.
// Compiled as one with the catalog.
package lakeroot.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.types.StructType;

class LakerootStagedTable extends LakerootTable implements StagedTable {
  // The commit of what was written; a table that is made without a query has nothing written.
  ObjectNode commit;

  LakerootStagedTable(String name, Bridge bridge, JsonNode found, StructType schema) {
    super(name, bridge, found, schema);
  }

  void publish(ObjectNode request) { commit = request; }

  public void commitStagedChanges() { bridge.ask(commit == null ? about("create_staged") : commit); }

  // Two interfaces have it, so none of them decides.
  public CustomTaskMetric[] reportDriverMetrics() { return new CustomTaskMetric[0]; }

  // A job that fails takes back itself what it has written; this is for what comes after it.
  public void abortStagedChanges() {
    if (commit == null) return;
    ObjectNode request = about("abort_write");
    request.set("write", (JsonNode) commit.get("write"));
    bridge.ask(request);
  }
}
