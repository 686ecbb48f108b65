DROP TABLE replicator.log;
ALTER TABLE replicator.witness DROP COLUMN note;
