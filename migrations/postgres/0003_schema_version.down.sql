DROP TABLE replicator.schema_version;
