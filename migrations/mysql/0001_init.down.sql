DROP TABLE IF EXISTS replicator_schema_version;
DROP TABLE IF EXISTS replicator_log;
DROP TABLE IF EXISTS replicator_witness;
DROP TABLE IF EXISTS replicator_checkpoints;
DROP TABLE IF EXISTS replicator_pipelines;
