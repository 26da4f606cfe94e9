// What Spark has made of a statement, if it is a lookup: some columns of one table, where columns
// equal values that are written in the text. Python then answers the same text with other values.
package lakeroot.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.trees.Origin;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.IntegralType;

class Lookups {
  final LakerootCatalog catalog;
  final Map names = new HashMap();

  Lookups(LakerootCatalog catalog) { this.catalog = catalog; }

  // The table, the columns, and for each condition its column and where in the text its values are.
  ObjectNode of(LogicalPlan plan) {
    if (!(plan instanceof Project) || !(((Project) plan).child() instanceof Filter)) return null;
    Filter filter = (Filter) ((Project) plan).child();
    LogicalPlan below = filter.child();
    while (below instanceof SubqueryAlias) below = ((SubqueryAlias) below).child();
    if (!(below instanceof DataSourceV2Relation)) return null;
    DataSourceV2Relation relation = (DataSourceV2Relation) below;
    if (relation.catalog().isEmpty() || relation.catalog().get() != catalog) return null;
    if (relation.timeTravelSpec().isDefined() || !relation.options().isEmpty()) return null;
    ObjectNode found = catalog.bridge.mapper.createObjectNode();
    found.set("table", ((LakerootTable) relation.table()).found.get("table"));
    scala.collection.Iterator all = relation.output().iterator();
    while (all.hasNext()) {
      AttributeReference column = (AttributeReference) all.next();
      names.put(column.exprId(), column.name());
    }
    ArrayNode columns = found.putArray("columns");
    scala.collection.Iterator wanted = ((Project) plan).projectList().iterator();
    while (wanted.hasNext()) {
      String name = column(wanted.next());
      if (name == null) return null;
      columns.add(name);
    }
    return conditions(filter.condition(), found.putArray("conditions")) ? found : null;
  }

  // The name of a column of the table, if the statement calls it as the table does.
  String column(Object expression) {
    Object inner = expression;
    if (expression instanceof Cast) {
      Cast cast = (Cast) expression;
      // Of IN Spark casts all parts to one type, also those that have it.
      if (cast.child().dataType().equals(cast.dataType())) inner = cast.child();
    }
    if (!(inner instanceof AttributeReference)) return null;
    AttributeReference column = (AttributeReference) inner;
    return column.name().equals(names.get(column.exprId())) ? column.name() : null;
  }

  boolean conditions(Object expression, ArrayNode all) {
    if (expression instanceof And)
      return conditions(((And) expression).left(), all)
          && conditions(((And) expression).right(), all);
    ObjectNode condition = all.addObject();
    if (expression instanceof EqualTo) {
      condition.put("column", column(((EqualTo) expression).left()));
      return value(((EqualTo) expression).right(), condition.putArray("values"));
    }
    if (!(expression instanceof In)) return false;
    condition.put("column", column(((In) expression).value()));
    ArrayNode values = condition.putArray("values");
    scala.collection.Iterator list = ((In) expression).list().iterator();
    while (list.hasNext()) if (!value(list.next(), values)) return false;
    return true;
  }

  // An integer may be widened to the type of its column; any other cast is left to Spark.
  boolean value(Object expression, ArrayNode values) {
    Object literal = expression;
    if (expression instanceof Cast) {
      Cast cast = (Cast) expression;
      if (!(cast.dataType() instanceof IntegralType)) return false;
      if (!(cast.child().dataType() instanceof IntegralType)) return false;
      literal = cast.child();
    }
    if (!(literal instanceof org.apache.spark.sql.catalyst.expressions.Literal)) return false;
    Origin origin = ((org.apache.spark.sql.catalyst.expressions.Literal) literal).origin();
    if (origin.startIndex().isEmpty() || origin.stopIndex().isEmpty()) return false;
    values.add(((Integer) origin.startIndex().get()).intValue());
    values.add(((Integer) origin.stopIndex().get()).intValue());
    return true;
  }
}
