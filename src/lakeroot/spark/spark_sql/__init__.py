"""The SQL face: a Spark catalog without a JAR, and the statements it cannot run itself."""
