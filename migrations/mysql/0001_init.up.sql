-- DDL commits by itself here, so a crash may leave a part of a migration: it is run again then, and each statement must bear it.
-- A statement ends with a semicolon at the end of its line.

-- Who runs a pipeline. Each start takes the next epoch; saving a checkpoint asks for the latest one.
CREATE TABLE IF NOT EXISTS replicator_pipelines (
    pipeline varchar(200) NOT NULL PRIMARY KEY,
    epoch    bigint       NOT NULL,
    acquired datetime(6)  NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Saved checkpoints. The columns before document repeat what it says, for people and for pruning.
CREATE TABLE IF NOT EXISTS replicator_checkpoints (
    pipeline  varchar(200) NOT NULL,
    id        bigint       NOT NULL,
    epoch     bigint       NOT NULL,
    created   datetime(6)  NOT NULL,
    savepoint boolean      NOT NULL,
    document  longtext     NOT NULL,
    PRIMARY KEY (pipeline, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The last committed transaction of each worker: checkpoint, and the epoch that wrote it. Every transaction moves its
-- row as its last statement, and only while epoch is its own. note: what a transaction that was committed in one step says of
-- itself, in delivery one-phase the positions that it leads to.
CREATE TABLE IF NOT EXISTS replicator_witness (
    pipeline   varchar(200) NOT NULL,
    worker     int          NOT NULL,
    epoch      bigint       NOT NULL,
    checkpoint bigint       NOT NULL DEFAULT 0,
    written    bigint       NOT NULL DEFAULT 0,
    updated    datetime(6)  NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    note       longblob     NULL,
    PRIMARY KEY (pipeline, worker)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The statements of checkpoints in delivery write-ahead: written before the checkpoint that lists them is saved, applied
-- after it, then deleted. A part is in pieces, because no statement is longer than max_allowed_packet.
CREATE TABLE IF NOT EXISTS replicator_log (
    pipeline   varchar(200) NOT NULL,
    epoch      bigint       NOT NULL,
    checkpoint bigint       NOT NULL,
    worker     int          NOT NULL,
    part       int          NOT NULL,
    piece      int          NOT NULL,
    sum        binary(32)   NOT NULL,
    body       longblob     NOT NULL,
    PRIMARY KEY (pipeline, epoch, checkpoint, worker, part, piece)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- How far the source's schema changes are applied to the target, for each table of the source. The row is written after the DDL.
-- The names are of any length, and a key is not: by_source is a hash of source.
CREATE TABLE IF NOT EXISTS replicator_schema_version (
    pipeline      varchar(200) NOT NULL,
    by_source     binary(32)   NOT NULL,
    source        text         NOT NULL,
    target_schema varchar(200) NOT NULL,
    target_table  varchar(200) NOT NULL,
    state         longtext     NOT NULL,
    updated       datetime(6)  NOT NULL,
    PRIMARY KEY (pipeline, by_source)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
