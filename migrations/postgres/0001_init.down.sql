DROP TABLE replicator.witness;
DROP TABLE replicator.checkpoints;
DROP TABLE replicator.pipelines;
