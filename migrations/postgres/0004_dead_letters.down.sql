DROP TABLE replicator.dead_letters;
