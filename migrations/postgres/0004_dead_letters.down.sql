-- An older program would apply later records of rows whose earlier ones are here.
DO $$ BEGIN
    IF EXISTS (SELECT FROM replicator.dead_letters) THEN
        RAISE EXCEPTION 'records are set aside in replicator.dead_letters: run `replicator dead-letters retry` or `drop` first' USING ERRCODE = 'object_in_use';
    END IF;
END $$;
DROP TABLE replicator.dead_letters;
