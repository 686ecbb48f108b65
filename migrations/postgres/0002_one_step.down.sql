-- What only the log or a note says is committed is in no saved checkpoint: without it an older program would apply it again, or never.
DO $$ BEGIN
    IF EXISTS (SELECT FROM replicator.log) THEN
        RAISE EXCEPTION 'statements of write-ahead delivery wait in replicator.log: run the pipeline until it has caught up, and stop it by SIGTERM, first' USING ERRCODE = 'object_in_use';
    END IF;
    IF EXISTS (SELECT FROM replicator.witness AS w WHERE note IS NOT NULL AND NOT EXISTS (
        SELECT FROM replicator.checkpoints AS c WHERE c.pipeline = w.pipeline AND c.id >= w.checkpoint)) THEN
        RAISE EXCEPTION 'positions of one-phase delivery are in replicator.witness alone: run the pipeline until it has caught up, and stop it by SIGTERM, first' USING ERRCODE = 'object_in_use';
    END IF;
END $$;
DROP TABLE replicator.log;
ALTER TABLE replicator.witness DROP COLUMN note;
