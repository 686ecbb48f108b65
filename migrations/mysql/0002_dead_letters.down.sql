DROP TABLE IF EXISTS replicator_dead_letters;
