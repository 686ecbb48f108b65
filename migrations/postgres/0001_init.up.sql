-- Who runs a pipeline. Each start takes the next epoch; saving a checkpoint asks for the latest one.
CREATE TABLE replicator.pipelines (
    pipeline text        PRIMARY KEY,
    epoch    bigint      NOT NULL,
    acquired timestamptz NOT NULL DEFAULT now()
);

-- Saved checkpoints. The columns before document repeat what it says, for people and for pruning.
CREATE TABLE replicator.checkpoints (
    pipeline  text        NOT NULL,
    id        bigint      NOT NULL,
    epoch     bigint      NOT NULL,
    created   timestamptz NOT NULL,
    savepoint boolean     NOT NULL,
    document  json        NOT NULL,
    PRIMARY KEY (pipeline, id)
);

-- The last committed transaction of each worker: checkpoint, and the epoch that wrote it. Every transaction moves its
-- row as its last statement, and only while epoch is its own.
CREATE TABLE replicator.witness (
    pipeline   text        NOT NULL,
    worker     integer     NOT NULL,
    epoch      bigint      NOT NULL,
    checkpoint bigint      NOT NULL DEFAULT 0,
    written    bigint      NOT NULL DEFAULT 0,
    updated    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (pipeline, worker)
) WITH (fillfactor = 50);
